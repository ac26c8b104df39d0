/*
 * The programs of one device in the disk cache: which binary is valid for what, and when to ask the
 * driver for it.
 */
#ifndef MHA_CL_PROGRAM_DISK_H
#define MHA_CL_PROGRAM_DISK_H

#include "cl/build.h"
#include "cl/device.h"
#include "core/strbuf.h"

struct mha_program_disk {
    char *path; /* of the disk cache; NULL: nothing is kept */
    /*
     * Most drivers have the binary at hand once a program is built. PoCL compiles all kernels for
     * it, for work-groups of any size, which takes longer than all the rest and serves no launch.
     * Asked after the launches it at least adds what these made it compile, so that the next
     * process compiles nothing.
     */
    int saves_late;
    struct mha_strbuf driver_text; /* what a binary depends on beside source and options */
};

/* Cannot fail: at worst nothing is kept. */
void mha_program_disk_open(struct mha_program_disk *disk, const struct mha_device *device);
void mha_program_disk_close(struct mha_program_disk *disk);

enum mha_disk_answer { MHA_DISK_NOTHING, MHA_DISK_REFUSED, MHA_DISK_LOADED };

/* LOADED with the program of the kept binary; REFUSED if the driver does not take that. */
enum mha_disk_answer mha_program_disk_load(const struct mha_program_disk *disk,
                                           const struct mha_build *build,
                                           const struct mha_strbuf *source, cl_program *program);

/* Keeps the program's binary; without `replaces`, only if none is there. */
void mha_program_disk_save(const struct mha_program_disk *disk, const struct mha_build *build,
                           const struct mha_strbuf *source, cl_program program, int replaces);

#endif
