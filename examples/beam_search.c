/* A phrase-based beam search that is scored by a boostfeat model.
 *
 *     boostfeat induce dev.nbest --for-decoder -o model.json
 *     boostfeat export model.json --to c -o model.h
 *     cc -std=c99 beam_search.c model.c -lm -o beam_search
 *
 * Standard input: the source sentence, then a line for each phrase that may translate a part of it, as
 * "2 4 ||| a big house ||| 0-1 1-2 ||| -1.5 -0.25": its source words 2 and 3, its target words, links by source word, and
 * the decoder's features in the order of boostfeat_feature_name. Output: the score, and the numbers of the phrases taken.
 */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 32, LINKS = 64, OPTIONS = 512, BEAM = 1000 };

typedef struct Hyp {
    const struct Hyp *back;     /* the same without its last unit */
    const boostfeat_unit *unit; /* the last one; NULL at the beginning */
    unsigned long covered;      /* source words, a bit each */
    double score;               /* of all units but the last: the unit after it is not known yet */
    double guess;               /* with the last one, as if none followed; what is pruned by */
} Hyp;

typedef struct { /* a translation option, and the memory that its unit points to */
    boostfeat_unit unit;
    boostfeat_word target[WORDS];
    int links[2 * LINKS];
    double x[BOOSTFEAT_N_FEATURES + 1];
} Option;

static boostfeat_word source[WORDS];
static int n_source;
static Option options[OPTIONS];
static Hyp stacks[WORDS + 1][BEAM]; /* hypotheses by the number of words that they cover */
static int n_in[WORDS + 1];

static Hyp extended(const Hyp *hyp, const boostfeat_unit *unit) {
    Hyp out;
    out.back = hyp;
    out.unit = unit;
    out.covered = hyp->covered | ((1UL << (unit->src_end - unit->src_start)) - 1) << unit->src_start;
    out.score = hyp->score; /* now the unit that follows the last one is known */
    if (hyp->unit) out.score += boostfeat_unit_score(source, n_source, hyp->back->unit, hyp->unit, unit);
    out.guess = out.score + boostfeat_unit_score(source, n_source, hyp->unit, unit, NULL);
    return out;
}

static void add(Hyp new, int n_covered) {
    Hyp *stack = stacks[n_covered], *place = NULL;
    int k;
    for (k = 0; k < n_in[n_covered] && !place; k++) /* equal ever after: what is covered, and the last two units */
        if (stack[k].covered == new.covered && stack[k].unit == new.unit && stack[k].back->unit == new.back->unit) place = stack + k;
    if (!place && n_in[n_covered] < BEAM) {
        stack[n_in[n_covered]++] = new;
        return;
    }
    for (k = 0; !place && k < BEAM; k++) /* the worst one */
        if (k == 0 || stack[k].guess < place->guess) place = stack + k;
    if (place && new.guess > place->guess) *place = new;
}

static int split(char *text, boostfeat_word *words) {
    int n = 0;
    for (text = strtok(text, " \n"); text && n < WORDS; text = strtok(NULL, " \n"), n++) words[n].at = text, words[n].n = strlen(text);
    return n;
}

static void read_option(char *line, Option *out) {
    boostfeat_unit *unit = &out->unit;
    char *words = strstr(line, " ||| "), *links = strstr(words + 5, " ||| "), *x = strstr(links + 5, " ||| ");
    int i, j, k, n;
    *words = *links = *x = '\0';
    sscanf(line, "%d %d", &unit->src_start, &unit->src_end);
    unit->src = source + unit->src_start;
    unit->n_src = unit->src_end - unit->src_start;
    unit->tgt = out->target;
    unit->n_tgt = split(words + 5, out->target);
    unit->links = out->links;
    for (links += 5; unit->n_links < LINKS && sscanf(links, "%d-%d%n", &i, &j, &n) == 2; links += n) {
        out->links[2 * unit->n_links] = i;
        out->links[2 * unit->n_links++ + 1] = j;
    }
    unit->x = out->x; /* what depends on the words before, as a language model, is of a copy of the unit that a hypothesis has */
    for (x += 5, k = 0; k < BOOSTFEAT_N_FEATURES; k++) out->x[k] = strtod(x, &x);
}

static void print_path(const Hyp *hyp) {
    if (!hyp->unit) return;
    print_path(hyp->back);
    printf(" %d", (int)((const Option *)(const void *)hyp->unit - options));
}

int main(void) {
    static char text[1 << 20], *line, *next;
    int n_options = 0, k, h, o;
    const Hyp *best = NULL;
    text[fread(text, 1, sizeof text - 1, stdin)] = '\0';
    if ((next = strchr(text, '\n')) == NULL) return 2;
    *next++ = '\0';
    n_source = split(text, source);
    while ((line = next) != NULL && *line && n_options < OPTIONS) {
        if ((next = strchr(line, '\n')) != NULL) *next++ = '\0';
        read_option(line, options + n_options++);
    }
    n_in[0] = 1; /* the empty hypothesis */
    for (k = 0; k < n_source; k++)
        for (h = 0; h < n_in[k]; h++)
            for (o = 0; o < n_options; o++) {
                const boostfeat_unit *unit = &options[o].unit;
                const unsigned long words = ((1UL << unit->n_src) - 1) << unit->src_start;
                if (!(stacks[k][h].covered & words)) add(extended(stacks[k] + h, unit), k + unit->n_src);
            }
    for (h = 0; h < n_in[n_source]; h++)
        if (!best || stacks[n_source][h].guess > best->guess) best = stacks[n_source] + h;
    if (!best) return 1;
    printf("%.17g", best->guess);
    print_path(best);
    printf("\n");
    return 0;
}
