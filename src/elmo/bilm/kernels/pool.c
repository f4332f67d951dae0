/* A few threads of our own, asleep between calls, and big blocks of memory kept from call to call.

   To wake a thread takes as long as a small layer for one sentence.  So whoever waits looks out for a moment before it
   lies down: a sentence's next call comes within that moment.

   No OpenMP: torch brings its own, and two of them in one process fight over the cores.  A second call that comes
   while the threads are busy runs on its caller's thread alone, so that callers never wait for each other. */

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

#ifndef LOOK_OUT_NS
#define LOOK_OUT_NS 1000000
#endif

/* Denormal numbers cost over a hundred cycles each; a state that decays to nothing is full of them. */
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

static pthread_mutex_t shelf_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the blocks of memory */
static pthread_mutex_t call = PTHREAD_MUTEX_INITIALIZER; /* held by the caller whose tasks run */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER, finished = PTHREAD_COND_INITIALIZER;
static int64_t num_workers, wanted;
static atomic_llong busy, round_number;
static atomic_int caller_core = -1, worker_core = -1; /* where they were when last seen; any of the workers */
static int fork_handled;
static struct {
    elmo_task task;
    void *context;
    int64_t num_tasks;
    atomic_llong next;
} job;

static void run_tasks(void)
{
    uint64_t before = flush_denormals();
    for (int64_t i; (i = atomic_fetch_add(&job.next, 1)) < job.num_tasks;) job.task(job.context, i);
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

/* Until the value is another, or the moment is over.  Whoever else wants the core gets it.  On the core of `other` a
   thread lies down at once: only when it is woken does the system look for a free core. */
static void look_out(atomic_llong *value, int64_t same, const atomic_int *other)
{
    int64_t end = nanoseconds() + LOOK_OUT_NS;
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
        look_out(&round_number, seen, &caller_core);
        pthread_mutex_lock(&lock);
        while (atomic_load(&round_number) == seen || number >= wanted) {
            seen = atomic_load(&round_number);
            pthread_cond_wait(&wake, &lock);
        }
        seen = atomic_load(&round_number);
        pthread_mutex_unlock(&lock);
        atomic_store(&worker_core, core());
        run_tasks();
        pthread_mutex_lock(&lock);
        if (atomic_fetch_sub(&busy, 1) == 1) pthread_cond_signal(&finished);
        pthread_mutex_unlock(&lock);
    }
    return 0;
}

/* A forked child has the parent's memory but none of its threads. */
static void forget_workers(void)
{
    static const pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    call = lock = mutex;
    wake = finished = condition;
    shelf_lock = mutex;
    num_workers = wanted = busy = 0;
}

/* The number of workers there are, up to `count`, starting those that are missing; `lock` is held. */
static int64_t have_workers(int64_t count)
{
    if (count > MAX_WORKERS) count = MAX_WORKERS;
    if (!fork_handled) fork_handled = pthread_atfork(0, 0, forget_workers) == 0;
    while (num_workers < count) {
        pthread_t thread;
        if (pthread_create(&thread, 0, work, (void *)(intptr_t)num_workers)) break;
        pthread_detach(thread);
        num_workers++;
    }
    return num_workers < count ? num_workers : count;
}

void elmo_parallel(elmo_task task, void *context, int64_t num_tasks, int64_t num_threads)
{
    if (num_threads > num_tasks) num_threads = num_tasks;
    if (num_threads <= 1 || pthread_mutex_trylock(&call)) {
        uint64_t before = flush_denormals();
        for (int64_t i = 0; i < num_tasks; i++) task(context, i);
        restore_denormals(before);
        return;
    }
    pthread_mutex_lock(&lock);
    job.task = task;
    job.context = context;
    job.num_tasks = num_tasks;
    atomic_store(&job.next, 0);
    wanted = busy = have_workers(num_threads - 1);
    atomic_store(&caller_core, core());
    round_number++;
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
    run_tasks();
    look_out(&busy, 1, &worker_core); /* the last worker; with more of them, the first ones just take part of the moment */
    pthread_mutex_lock(&lock);
    while (atomic_load(&busy) > 0) pthread_cond_wait(&finished, &lock);
    wanted = 0;
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&call);
}

/* Blocks are kept because fresh pages cost as much as a good part of a small model's work.  A block that turns out
   too small makes way for a larger one; more than KEPT at a time are mapped and given back to the system. */

enum { KEPT = 16, HUGE_PAGE = 1 << 21, HEADER = 64 };

typedef struct {
    char *base;
    int64_t bytes;
    int taken;
} block;

static block shelf[KEPT];

static int64_t whole_pages(int64_t bytes) { return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE; }

/* Memory in huge pages where the system has them: weights are read from end to end, and a small page lasts for a
   few hundred cycles only. */
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
    for (block *b = shelf; b < shelf + KEPT; b++) {
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
    pthread_mutex_lock(&shelf_lock);
    block *found = find_block(bytes);
    if (found) found->taken = 1;
    pthread_mutex_unlock(&shelf_lock);
    char *base = found ? found->base : elmo_map(bytes);
    if (!base) return 0;
    *(int64_t *)base = found ? 0 : bytes; /* what to unmap when it comes back */
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
    pthread_mutex_lock(&shelf_lock);
    for (block *b = shelf; b < shelf + KEPT; b++)
        if (b->base == base) b->taken = 0;
    pthread_mutex_unlock(&shelf_lock);
}
