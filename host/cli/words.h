/* The words of command lines and reports for values of the library's enums. */
#ifndef MHA_CLI_WORDS_H
#define MHA_CLI_WORDS_H

/* By gpu_mha_type and by gpu_mha_method, as MHA_OPTION_CHOICE wants them: NULL at the end. */
extern const char *const mha_type_words[];
extern const char *const mha_method_words[];

#endif
