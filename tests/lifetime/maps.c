/* maps.c - see maps.h. */
#include "maps.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

enum { PATH_ROOM = 4096 };

static const char *after_slash(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int maps_have(const char *part)
{
    char line[PATH_ROOM];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && !found && fgets(line, sizeof line, maps)) {
        const char *path = strchr(line, '/');
        found = path && strstr(after_slash(path), part) != NULL;
    }
    if (maps) {
        fclose(maps);
    }
    return found;
}

/* The first line of an .icd file: the driver's library. */
static int read_icd(const char *folder, const char *name, char *library, int room)
{
    char path[PATH_ROOM];
    const size_t length = strlen(name);
    if (length < 4 || strcmp(name + length - 4, ".icd") != 0) {
        return 0;
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    const int found = file && fgets(library, room, file);
    if (file) {
        fclose(file);
    }
    library[found ? strcspn(library, "\r\n") : 0] = '\0';
    return found && library[0] != '\0';
}

const char *maps_driver(int *known)
{
    static char library[PATH_ROOM];
    static const char folder[] = "/etc/OpenCL/vendors";
    const char *found = NULL;
    DIR *vendors = opendir(folder);
    *known = 0;
    for (struct dirent *e; vendors && !found && (e = readdir(vendors));) {
        if (read_icd(folder, e->d_name, library, sizeof library)) {
            ++*known;
            found = maps_have(after_slash(library)) ? after_slash(library) : NULL;
        }
    }
    if (vendors) {
        closedir(vendors);
    }
    return found;
}

int maps_open_files(void)
{
    int count = 0;
    DIR *open_files = opendir("/proc/self/fd");
    while (open_files && readdir(open_files)) {
        count++;
    }
    if (open_files) {
        closedir(open_files);
    }
    return count - 3; /* ".", ".." and the folder itself */
}
