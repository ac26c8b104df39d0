/*
 * What gpu-mha doctor prints: a line for each verdict as it comes, a summary, and a report to paste
 * into an issue; or one JSON object. See doctor.h.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bound.h"
#include "command.h"
#include "doctor.h"

static bool has_numbers(const struct mha_doctor_finding *finding)
{
    return finding->verdict == GPU_MHA_VERDICT_OK || finding->verdict == GPU_MHA_VERDICT_WRONG;
}

static void print_finding(const char *name, int type, const struct mha_doctor_finding *finding)
{
    printf("%-32s %-4s  %-7s %8.2f s  ", name, mha_type_words[type],
           gpu_mha_verdict_text(finding->verdict), finding->seconds);
    if (!has_numbers(finding)) {
        printf("%s\n", finding->sentence);
    } else if (finding->bound > 0) {
        printf("largest error %.2g, %.2g of the bound %.2g\n", finding->error,
               mha_share_of_bound(finding->error, finding->bound), finding->bound);
    } else {
        printf("largest error %.2g, none is allowed\n", finding->error);
    }
}

void mha_doctor_print_row(const struct mha_doctor_row *row)
{
    for (int type = 0; type < MHA_DOCTOR_TYPES; type++) {
        if (row->findings[type].verdict != GPU_MHA_VERDICT_NONE) {
            print_finding(row->variant.name, type, &row->findings[type]);
        }
    }
    fflush(stdout);
}

/* How many verdicts of each kind. */
static void count(const struct mha_doctor_summary *summary, size_t counts[GPU_MHA_VERDICT_HUNG + 1])
{
    memset(counts, 0, (GPU_MHA_VERDICT_HUNG + 1) * sizeof counts[0]);
    for (size_t i = 0; i < summary->row_count; i++) {
        for (int type = 0; type < MHA_DOCTOR_TYPES; type++) {
            if (summary->rows[i].tried && summary->rows[i].variant.types & 1u << type) {
                counts[summary->rows[i].findings[type].verdict]++;
            }
        }
    }
}

static void print_summary(const struct mha_doctor_summary *summary)
{
    size_t counts[GPU_MHA_VERDICT_HUNG + 1], bad = 0;

    count(summary, counts);
    printf("\n");
    for (int v = GPU_MHA_VERDICT_OK; v <= GPU_MHA_VERDICT_HUNG; v++) {
        printf("%s%zu %s", v == GPU_MHA_VERDICT_OK ? "" : ", ", counts[v],
               gpu_mha_verdict_text((gpu_mha_verdict)v));
        bad += mha_doctor_is_bad((gpu_mha_verdict)v) ? counts[v] : 0;
    }
    printf("%s\n", summary->early ? "; ended early, the rest was not tried" : "");
    if (summary->dry_run) {
        printf("Nothing was kept: this was a dry run.\n");
    } else if (!summary->file[0]) {
        printf("Nothing was kept: caching is off (see GPU_MHA_CACHE_DIR in gpu-mha --help).\n");
    } else if (!summary->kept) {
        printf("Not all could be kept in %s\n", summary->file);
    } else {
        printf("Kept in %s%s\n", summary->file,
               bad > 0 ? "; the library avoids what failed from now on" : "");
    }
}

/* Where verdicts are kept is a path of the user's, so the report begins below that line. */
void mha_doctor_print_report(const struct mha_doctor_summary *summary, gpu_mha_context *context)
{
    const char *name;
    json_t *value, *facts = mha_doctor_facts(context);

    print_summary(summary);
    printf("\nReport, to paste into an issue:\n\n```\n");
    json_object_foreach(facts, name, value)
    {
        printf("%s: %s\n", name, json_string_value(value));
    }
    for (size_t i = 0; i < summary->row_count; i++) {
        if (summary->rows[i].tried) {
            mha_doctor_print_row(&summary->rows[i]);
        }
    }
    printf("```\n");
    json_decref(facts);
}

static json_t *finding_json(const struct mha_doctor_row *row, int type)
{
    const struct mha_doctor_finding *finding = &row->findings[type];
    const bool numbers = has_numbers(finding);

    return json_pack("{s:o s:s s:s s:o s:o s:o s:o}", "variant", mha_json_text(row->variant.name),
                     "type", mha_type_words[type], "verdict",
                     gpu_mha_verdict_text(finding->verdict), "seconds",
                     mha_json_number(finding->seconds), "error",
                     numbers ? mha_json_number(finding->error) : json_null(), "bound",
                     numbers ? mha_json_number(finding->bound) : json_null(), "sentence",
                     mha_json_text(finding->sentence));
}

enum mha_exit mha_doctor_print_json(const struct mha_doctor_summary *summary,
                                    gpu_mha_context *context)
{
    size_t counts[GPU_MHA_VERDICT_HUNG + 1];
    json_t *verdicts = json_array(), *totals = json_object();

    count(summary, counts);
    for (int v = GPU_MHA_VERDICT_NONE; v <= GPU_MHA_VERDICT_HUNG; v++) {
        json_object_set_new(totals, gpu_mha_verdict_text((gpu_mha_verdict)v),
                            json_integer((json_int_t)counts[v]));
    }
    for (size_t i = 0; i < summary->row_count; i++) {
        for (int type = 0; type < MHA_DOCTOR_TYPES; type++) {
            if (summary->rows[i].tried && summary->rows[i].variant.types & 1u << type) {
                json_array_append_new(verdicts, finding_json(&summary->rows[i], type));
            }
        }
    }
    return mha_print_json(json_pack("{s:o s:o s:o s:b s:b}", "facts", mha_doctor_facts(context),
                                    "verdicts", verdicts, "totals", totals, "early", summary->early,
                                    "kept", summary->kept));
}
