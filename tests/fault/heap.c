/*
 * The seam. From any thread, but armed for the thread that armed it alone.
 */
#include "heap.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *block);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t most);
int __real_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attributes);
int __real_pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes);

/* Visible, or the linker refuses to see them in the place of what shared libraries ask for. */
#pragma GCC visibility push(default)
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *block);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t most);
int __wrap_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attributes);
int __wrap_pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes);
#pragma GCC visibility pop

/* Blocks handed out while armed, by address. */
enum { BUCKETS = 1024 };
struct block {
    struct block *next;
    const void *address;
};
static struct block *buckets[BUCKETS];
static int live;
static pthread_mutex_t buckets_lock = PTHREAD_MUTEX_INITIALIZER;

static _Thread_local int armed, nth_fails, ever_fails, calls, failed;

void heap_arm(int nth, int ever)
{
    armed = 1;
    nth_fails = nth;
    ever_fails = ever;
    calls = 0;
    failed = 0;
}

void heap_disarm(void)
{
    armed = 0;
}

int heap_failed(void)
{
    return failed;
}

int heap_calls(void)
{
    return calls;
}

int heap_live(void)
{
    return live;
}

static int must_fail(void)
{
    if (!armed) {
        return 0;
    }
    calls++;
    const int fails = nth_fails > 0 && (calls == nth_fails || (ever_fails && calls > nth_fails));
    failed += fails;
    return fails;
}

static struct block **place_of(const void *address)
{
    const uintptr_t bits = (uintptr_t)address;
    struct block **place = &buckets[(bits / 16 ^ bits / 16384) % BUCKETS];
    while (*place && (*place)->address != address) {
        place = &(*place)->next;
    }
    return place;
}

static void *note(void *address)
{
    if (!armed || !address) {
        return address;
    }
    struct block *block = __real_malloc(sizeof *block);
    if (!block) {
        abort();
    }
    pthread_mutex_lock(&buckets_lock);
    struct block **place = place_of(address);
    *block = (struct block){*place, address};
    *place = block;
    live++;
    pthread_mutex_unlock(&buckets_lock);
    return address;
}

static void forget(const void *address)
{
    pthread_mutex_lock(&buckets_lock);
    struct block **place = place_of(address), *block = *place;
    if (block) {
        *place = block->next;
        live--;
    }
    pthread_mutex_unlock(&buckets_lock);
    __real_free(block);
}

static void *no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

void *__wrap_malloc(size_t size)
{
    return must_fail() ? no_memory() : note(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return must_fail() ? no_memory() : note(__real_calloc(count, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    if (must_fail()) {
        return no_memory();
    }
    forget(old);
    return note(__real_realloc(old, size));
}

void __wrap_free(void *block)
{
    forget(block);
    __real_free(block);
}

char *__wrap_strdup(const char *text)
{
    return must_fail() ? no_memory() : note(__real_strdup(text));
}

char *__wrap_strndup(const char *text, size_t most)
{
    return must_fail() ? no_memory() : note(__real_strndup(text, most));
}

int __wrap_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attributes)
{
    return must_fail() ? ENOMEM : __real_pthread_mutex_init(lock, attributes);
}

int __wrap_pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes)
{
    return must_fail() ? ENOMEM : __real_pthread_cond_init(condition, attributes);
}
