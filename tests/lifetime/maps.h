/* maps.h - which files the process has mapped. */
#ifndef MHA_TESTS_LIFETIME_MAPS_H
#define MHA_TESTS_LIFETIME_MAPS_H

/* 1 if a mapped file has `part` in its name (the part behind the last slash). */
int maps_have(const char *part);

/*
 * The name of a mapped file that is an OpenCL driver, as the files of the ICD loader name them;
 * NULL if there is none. *known: how many drivers are named there.
 */
const char *maps_driver(int *known);

int maps_open_files(void); /* file descriptors of the process */

#endif
