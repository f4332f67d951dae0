/* The thread pool alone under ThreadSanitizer: many callers, tasks that write, blocks of memory that come and go.
   `make test-sanitizers` builds it with pool.c. */

#include "kernels.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { CALLERS = 4, ROUNDS = 400, TASKS = 7, FLOATS = 3000 };

typedef struct {
    int64_t sums[TASKS];
    int failed;
} work;

static void task(void *context, int64_t index)
{
    work *w = context;
    int64_t *block = elmo_scratch_take(FLOATS * sizeof(int64_t));
    if (!block) {
        w->failed = 1;
        return;
    }
    for (int64_t i = 0; i < FLOATS; i++) block[i] = index + i;
    for (int64_t i = 0; i < FLOATS; i++) w->sums[index] += block[i];
    elmo_scratch_give(block);
}

static void *call(void *argument)
{
    int64_t *wrong = argument;
    for (int round = 0; round < ROUNDS; round++) {
        work w;
        memset(&w, 0, sizeof w);
        elmo_parallel(task, &w, TASKS, 1 + round % 4);
        for (int64_t i = 0; i < TASKS; i++)
            *wrong += w.failed || w.sums[i] != FLOATS * i + (int64_t)FLOATS * (FLOATS - 1) / 2;
    }
    return 0;
}

int main(void)
{
    pthread_t threads[CALLERS];
    int64_t wrong[CALLERS] = {0}, total = 0;
    for (int i = 0; i < CALLERS; i++) pthread_create(&threads[i], 0, call, &wrong[i]);
    for (int i = 0; i < CALLERS; i++) pthread_join(threads[i], 0);
    for (int i = 0; i < CALLERS; i++) total += wrong[i];
    printf("%lld wrong sums\n", (long long)total);
    return total != 0;
}
