/*
 * Linked into every test program of an AddressSanitizer build: libraries stay loaded to the end.
 *
 * An OpenCL driver that closes a library of its own takes the names of its leaked memory with it,
 * and lsan.supp can no longer tell that memory from ours.
 */
/* Visible, so that the drivers' calls come here. */
__attribute__((visibility("default"))) int dlclose(void *handle);

int dlclose(void *handle)
{
    (void)handle;
    return 0;
}
