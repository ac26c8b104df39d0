/* A hash table of what the program holds, by kind and address. */
#include "objects.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUCKETS = 1024 };

struct object {
    struct object *next;
    enum fault_kind kind;
    const void *address;
    int references, mark;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *buckets[BUCKETS];
static int live[FAULT_KINDS];
static char misuse[256];

static struct object **place_of(enum fault_kind kind, const void *address)
{
    const uintptr_t bits = (uintptr_t)address;
    struct object **place = &buckets[(bits / 16 ^ bits / 16384) % BUCKETS];
    while (*place && ((*place)->kind != kind || (*place)->address != address)) {
        place = &(*place)->next;
    }
    return place;
}

static void note(const char *call, enum fault_kind kind, const void *object)
{
    if (!misuse[0]) {
        snprintf(misuse, sizeof misuse, "%s got %p, which is none of the %d live %s", call, object,
                 live[kind], fault_kind_name(kind));
    }
}

void objects_add(enum fault_kind kind, const void *object)
{
    pthread_mutex_lock(&lock);
    struct object **place = place_of(kind, object);
    if (!*place) {
        *place = calloc(1, sizeof **place);
        if (!*place) {
            abort();
        }
        (*place)->kind = kind;
        (*place)->address = object;
    }
    (*place)->references++;
    live[kind]++;
    pthread_mutex_unlock(&lock);
}

void objects_retain(enum fault_kind kind, const void *object, const char *call)
{
    /* A root device is held by nobody, and may be retained. */
    if (kind != FAULT_DEVICES) {
        objects_use(kind, object, call);
    }
    objects_add(kind, object);
}

int objects_release(enum fault_kind kind, const void *object, const char *call)
{
    pthread_mutex_lock(&lock);
    struct object **place = place_of(kind, object), *found = *place;
    if (!found) {
        note(call, kind, object);
    } else {
        live[kind]--;
        if (--found->references == 0) {
            *place = found->next;
            free(found);
        }
    }
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

void objects_use(enum fault_kind kind, const void *object, const char *call)
{
    pthread_mutex_lock(&lock);
    if (!*place_of(kind, object)) {
        note(call, kind, object);
    }
    pthread_mutex_unlock(&lock);
}

void objects_mark(enum fault_kind kind, const void *object, int mark)
{
    pthread_mutex_lock(&lock);
    struct object *found = *place_of(kind, object);
    if (found) {
        found->mark = mark;
    }
    pthread_mutex_unlock(&lock);
}

int objects_marked(enum fault_kind kind, const void *object)
{
    pthread_mutex_lock(&lock);
    const struct object *found = *place_of(kind, object);
    const int mark = found ? found->mark : 0;
    pthread_mutex_unlock(&lock);
    return mark;
}

int objects_live(enum fault_kind kind)
{
    pthread_mutex_lock(&lock);
    const int count = live[kind];
    pthread_mutex_unlock(&lock);
    return count;
}

const char *objects_misuse(void)
{
    return misuse;
}

void objects_forget_misuse(void)
{
    pthread_mutex_lock(&lock);
    misuse[0] = '\0';
    pthread_mutex_unlock(&lock);
}
