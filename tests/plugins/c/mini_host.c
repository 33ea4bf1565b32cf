/* A program that is a plugin and its host, for sanitizers. Reads one call a line; the host's answers come in turn. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "osaurus_plugin.h"

static char *answers[256];
static int count, turn;

static const char *answer(void) {
    const char *text = count ? answers[turn++ % count] : NULL;
    return text && strcmp(text, "(null)") ? strdup(text) : NULL;
}
static const char *one(const char *a) { return a ? answer() : NULL; }
static const char *two(const char *a, const char *b) { (void)b; return a ? answer() : NULL; }
static const char *none(void) { return answer(); }
static void void_one(const char *a) { (void)a; }
static void void_two(const char *a, const char *b) { (void)a; (void)b; }
static void void_log(int level, const char *a) { (void)level; (void)a; }
static void void_fields(int level, const char *a, const char *b) { (void)level; (void)a; (void)b; }
static void give_back(const char *text) { free((void *)text); }
static const char *stream(const char *a, void (*chunk)(const char *, void *), void *data) {
    if (chunk)
        chunk("{}", data);
    return one(a);
}

static const osr_host_api host = {
    6,    one,      void_two, void_one, two,  two,  void_log, one,  one,      void_one, void_two, one,         stream,
    one,  none,     one,      one,      none, void_two, void_two, two,  void_one, none,     void_fields, give_back,
};

int main(void) {
    const osr_plugin_api *plugin = osaurus_plugin_entry_v2(&host);
    char *line = NULL;
    size_t size = 0;
    void *ctx = plugin->init();
    const char *manifest = plugin->get_manifest(ctx);
    plugin->free_string(manifest);
    while (getline(&line, &size, stdin) > 0) {
        line[strcspn(line, "\n")] = 0;
        char *kind = strtok(line, "\t"), *first = strtok(NULL, "\t"), *second = strtok(NULL, "");
        if (!second)
            second = "";
        if (!kind || !first)
            continue;
        const char *given = NULL;
        if (!strcmp(kind, "answer") && count < 256)
            answers[count++] = strdup(first);
        else if (!strcmp(kind, "tool"))
            given = plugin->invoke(ctx, "tool", first, second);
        else if (!strcmp(kind, "route") && plugin->handle_route)
            given = plugin->handle_route(ctx, first);
        else if (!strcmp(kind, "config") && plugin->on_config_changed)
            plugin->on_config_changed(ctx, first, second);
        else if (!strcmp(kind, "event") && plugin->on_task_event)
            plugin->on_task_event(ctx, "task", atoi(first), second);
        if (given)
            puts(given);
        plugin->free_string(given);
    }
    free(line);
    for (int i = 0; i < count; i++)
        free(answers[i]);
    plugin->destroy(ctx);
    return 0;
}
