/* Reads one text a line and says what the examples' JSON makes of it: the string at "key", or what is written anew. */
#define _GNU_SOURCE
#include <stdio.h>

#include "little_json.h"

int main(void) {
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, stdin) > 0) {
        line[strcspn(line, "\n")] = 0;
        const char *found = lj_find(line, "key");
        char *text = lj_string(found), *raw = lj_raw(found), *item = lj_raw(lj_item(found, 1));
        char *again = lj_write("{\"text\":", text ? text : "", ",\"raw\":", raw ? raw : "", ",\"item\":", item ? item : "",
                               "}", NULL);
        printf("%s\n", again);
        (void)lj_number(found, 0);
        free(text);
        free(raw);
        free(item);
        free(again);
    }
    free(line);
    return 0;
}
