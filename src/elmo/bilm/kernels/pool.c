/* A thread pool, and large blocks of memory that are reused from call to call.

   Waking a thread takes as long as a small layer takes for one sentence.  A waiting thread therefore spins for up to
   SPIN_NS before it sleeps: the next call for the same sentence usually comes within that time.

   OpenMP is not used: torch brings its own, and two OpenMP runtimes in one process compete for the cores.  A call that
   arrives while the threads are busy runs on its caller's thread alone, so that callers never wait for each other. */

#define _GNU_SOURCE /* sched_getcpu */
#include "kernels.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__x86_64__)
#define PAUSE() _mm_pause()
#elif defined(__aarch64__)
#define PAUSE() __asm__ volatile("yield")
#else
#define PAUSE() (void)0
#endif

#ifndef SPIN_NS
#define SPIN_NS 1000000
#endif

/* Denormal numbers cost over a hundred cycles each; a state that decays to zero is full of them. */
static uint64_t flush_denormals(void)
{
#if defined(__x86_64__)
    uint64_t before = _mm_getcsr();
    _mm_setcsr((unsigned)before | 0x8040);
    return before;
#elif defined(__aarch64__)
    uint64_t before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" : : "r"(before | (1u << 24)));
    return before;
#else
    return 0;
#endif
}

static void restore_denormals(uint64_t before)
{
#if defined(__x86_64__)
    _mm_setcsr((unsigned)before);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(before));
#else
    (void)before;
#endif
}

enum { MAX_WORKERS = 64 };

static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the blocks of memory */
static pthread_mutex_t call = PTHREAD_MUTEX_INITIALIZER; /* held by the caller whose tasks are running */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER, finished = PTHREAD_COND_INITIALIZER;
static int64_t num_workers, wanted;
static atomic_llong busy, round_number;
static atomic_int caller_core = -1, worker_core = -1; /* the last known cores of the caller and of any worker */
static struct {
    elmo_task task;
    void *context;
    int64_t num_tasks;
    atomic_llong next;
    atomic_int failed;
} job;
static _Thread_local int lacking; /* whether this thread found no memory since its last job began */

static void run_tasks(void)
{
    uint64_t before = flush_denormals();
    lacking = 0;
    for (int64_t i; (i = atomic_fetch_add(&job.next, 1)) < job.num_tasks;) job.task(job.context, i);
    if (lacking) atomic_store(&job.failed, 1);
    restore_denormals(before);
}

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int core(void)
{
#if defined(__linux__)
    return sched_getcpu();
#else
    return -1;
#endif
}

/* Spins until the value changes or SPIN_NS have passed, and yields the core to other threads.  A thread on the same
   core as `other` does not spin: the system looks for a free core only when it wakes a sleeping thread. */
static void spin_until_changed(atomic_llong *value, int64_t same, const atomic_int *other)
{
    int64_t end = nanoseconds() + SPIN_NS;
    while (atomic_load(value) == same && nanoseconds() < end) {
        int here = core();
        if (here >= 0 && here == atomic_load(other)) return;
        for (int i = 0; i < 32 && atomic_load(value) == same; i++) PAUSE();
        sched_yield();
    }
}

static void *work(void *argument)
{
    int64_t number = (int64_t)(intptr_t)argument, seen = 0;
    for (;;) {
        spin_until_changed(&round_number, seen, &caller_core);
        pthread_mutex_lock(&lock);
        while (atomic_load(&round_number) == seen || number >= wanted) {
            seen = atomic_load(&round_number);
            pthread_cond_wait(&wake, &lock);
        }
        seen = atomic_load(&round_number);
        atomic_fetch_add(&busy, 1);
        pthread_mutex_unlock(&lock);
        atomic_store(&worker_core, core());
        run_tasks();
        pthread_mutex_lock(&lock);
        if (atomic_fetch_sub(&busy, 1) == 1) pthread_cond_signal(&finished);
        pthread_mutex_unlock(&lock);
    }
    return 0;
}

/* A forked child has the parent's memory but none of its threads.  The list of blocks must not be changing at
   that moment; calls in progress continue in the parent alone. */
static void before_fork(void) { pthread_mutex_lock(&blocks_lock); }
static void after_fork_in_parent(void) { pthread_mutex_unlock(&blocks_lock); }
static void after_fork_in_child(void)
{
    static const pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    call = lock = mutex;
    wake = finished = condition;
    blocks_lock = mutex;
    num_workers = wanted = busy = 0;
}

__attribute__((constructor)) static void handle_forks(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* The number of workers there are, up to `count`, starting those that are missing; `lock` is held. */
static int64_t have_workers(int64_t count)
{
    if (count > MAX_WORKERS) count = MAX_WORKERS;
    while (num_workers < count) {
        pthread_t thread;
        if (pthread_create(&thread, 0, work, (void *)(intptr_t)num_workers)) break;
        pthread_detach(thread);
        num_workers++;
    }
    return num_workers < count ? num_workers : count;
}

int elmo_parallel(elmo_task task, void *context, int64_t num_tasks, int64_t num_threads)
{
    if (num_threads > num_tasks) num_threads = num_tasks;
    if (num_threads <= 1 || pthread_mutex_trylock(&call)) {
        uint64_t before = flush_denormals();
        lacking = 0;
        for (int64_t i = 0; i < num_tasks; i++) task(context, i);
        restore_denormals(before);
        return lacking ? ELMO_NO_MEMORY : 0;
    }
    pthread_mutex_lock(&lock);
    job.task = task;
    job.context = context;
    job.num_tasks = num_tasks;
    atomic_store(&job.next, 0);
    atomic_store(&job.failed, 0);
    wanted = have_workers(num_threads - 1);
    atomic_store(&caller_core, core());
    round_number++;
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
    run_tasks();
    /* No task is left.  Workers that have not started, because another process uses their core, are not waited for. */
    pthread_mutex_lock(&lock);
    wanted = 0;
    pthread_mutex_unlock(&lock);
    spin_until_changed(&busy, 1, &worker_core); /* returns at once while more than one worker is busy */
    pthread_mutex_lock(&lock);
    while (atomic_load(&busy) > 0) pthread_cond_wait(&finished, &lock);
    int failed = atomic_load(&job.failed);
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&call);
    return failed ? ELMO_NO_MEMORY : 0;
}

/* Blocks are reused because page faults in new memory take much of a small model's time.  A free block that is
   too small is replaced by a larger one; when KEPT blocks are in use, memory is mapped for one use and then unmapped. */

enum { KEPT = 16, HUGE_PAGE = 1 << 21, HEADER = 64 };

typedef struct {
    char *base;
    int64_t bytes;
    int taken;
} block;

static block blocks[KEPT];

static int64_t whole_pages(int64_t bytes) { return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE; }

/* Memory in huge pages where the system has them: weights are read sequentially, and with small pages a new address
   would be translated every few hundred cycles. */
void *elmo_map(int64_t bytes)
{
    bytes = whole_pages(bytes);
    char *raw = mmap(0, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return 0;
    char *base = (char *)whole_pages((intptr_t)raw);
    if (base > raw) munmap(raw, base - raw);
    munmap(base + bytes, raw + HUGE_PAGE - base);
#ifdef MADV_HUGEPAGE
    madvise(base, bytes, MADV_HUGEPAGE);
#endif
    return base;
}

void elmo_unmap(void *base, int64_t bytes)
{
    if (base) munmap(base, whole_pages(bytes));
}

static block *find_block(int64_t bytes)
{
    block *best = 0, *room = 0;
    for (block *b = blocks; b < blocks + KEPT; b++) {
        if (b->taken) continue;
        if (!room || b->bytes < room->bytes) room = b;
        if (b->bytes >= bytes && (!best || b->bytes < best->bytes)) best = b;
    }
    if (best || !room) return best;
    elmo_unmap(room->base, room->bytes);
    room->base = elmo_map(bytes);
    room->bytes = room->base ? whole_pages(bytes) : 0;
    return room->base ? room : 0;
}

void *elmo_scratch_take(int64_t bytes)
{
    bytes += HEADER;
    pthread_mutex_lock(&blocks_lock);
    block *found = find_block(bytes);
    if (found) found->taken = 1;
    pthread_mutex_unlock(&blocks_lock);
    char *base = found ? found->base : elmo_map(bytes);
    if (!base) {
        lacking = 1;
        return 0;
    }
    *(int64_t *)base = found ? 0 : bytes; /* bytes to unmap when the block is released */
    return base + HEADER;
}

void elmo_scratch_give(void *memory)
{
    if (!memory) return;
    char *base = (char *)memory - HEADER;
    if (*(int64_t *)base) {
        elmo_unmap(base, *(int64_t *)base);
        return;
    }
    pthread_mutex_lock(&blocks_lock);
    for (block *b = blocks; b < blocks + KEPT; b++)
        if (b->base == base) b->taken = 0;
    pthread_mutex_unlock(&blocks_lock);
}
