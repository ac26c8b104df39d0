/* The walk over folders of cases; see verify_walk.h. */
#include "verify_walk.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "report.h"

/* Deeper than any tree of cases; keeps a hostile one from exhausting the stack. */
#define MAX_DEPTH 32

struct walk {
    mha_walk_visit visit;
    void *user;
    int visits; /* cases and problems so far */
};

static void visit(struct walk *walk, const char *folder, const char *problem)
{
    walk->visits++;
    walk->visit(walk->user, folder, problem);
}

static char *join(const char *folder, const char *name)
{
    const char *slash = folder[0] != '\0' && folder[strlen(folder) - 1] == '/' ? "" : "/";
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path) {
        snprintf(path, size, "%s%s%s", folder, slash, name);
    }
    return path;
}

static int not_dots(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

/* Byte order, the same on every machine and in every locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool contains(struct dirent **entries, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(entries[i]->d_name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void walk_folder(struct walk *walk, const char *folder, int depth);

static void walk_entry(struct walk *walk, const char *folder, const char *name, int depth)
{
    struct stat info;
    char *path = join(folder, name);

    if (!path) {
        visit(walk, folder, "out of memory");
    } else if (lstat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        walk_folder(walk, path, depth);
    }
    free(path);
}

static void walk_folder(struct walk *walk, const char *folder, int depth)
{
    char problem[MHA_ERROR_SIZE];
    struct dirent **entries;

    if (depth > MAX_DEPTH) {
        visit(walk, folder, "folders are nested too deeply");
        return;
    }
    int count = scandir(folder, &entries, not_dots, by_name);
    if (count < 0) {
        mha_fail(problem, sizeof problem, "cannot read this folder: %s", strerror(errno));
        visit(walk, folder, problem);
        return;
    }
    bool is_case = contains(entries, count, "case.json");
    if (is_case) {
        visit(walk, folder, NULL);
    }
    for (int i = 0; i < count; i++) {
        if (!is_case) {
            walk_entry(walk, folder, entries[i]->d_name, depth + 1);
        }
        free(entries[i]);
    }
    free(entries);
}

void mha_walk_cases(const char *folder, mha_walk_visit callback, void *user)
{
    struct walk walk = {callback, user, 0};

    walk_folder(&walk, folder, 0);
    if (walk.visits == 0) {
        visit(&walk, folder, "there is no case.json in this folder or below it");
    }
}
