/* A plugin that asks its host for what a test says, and writes down what it is told. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "osaurus_plugin.h"

#ifndef MANIFEST
#define MANIFEST "{\"plugin_id\":\"test.bridge\",\"capabilities\":{}}"
#endif
#ifndef ABI
#define ABI OSR_ABI_VERSION_6
#endif

static const osr_host_api *host;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static char *seen;
static int inside, most_inside;
static volatile int dispatching;

/* ---- texts ---- */

struct text {
    char *chars;
    size_t used, room;
};

static void add(struct text *text, const char *more, size_t size) {
    if (text->used + size + 1 > text->room) {
        text->room = (text->used + size + 1) * 2;
        text->chars = realloc(text->chars, text->room);
    }
    memcpy(text->chars + text->used, more, size);
    text->used += size;
    text->chars[text->used] = 0;
}

static void put(struct text *text, const char *more) { add(text, more, strlen(more)); }

static void put_quoted(struct text *text, const char *given) { /* as a JSON string */
    if (!given) {
        put(text, "null");
        return;
    }
    put(text, "\"");
    for (const char *at = given; *at; at++) {
        char code[8];
        if (*at == '"' || *at == '\\') {
            snprintf(code, sizeof code, "\\%c", *at);
            put(text, code);
        } else if ((unsigned char)*at < 0x20) {
            snprintf(code, sizeof code, "\\u%04x", *at);
            put(text, code);
        } else {
            add(text, at, 1);
        }
    }
    put(text, "\"");
}

/* The first string member of this name in a JSON text, without its quotes; only what our tests send is read. */
static char *member(const char *json, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\":\"", name);
    const char *at = strstr(json, key);
    if (!at)
        return NULL;
    struct text text = {0};
    put(&text, "");
    for (at += strlen(key); *at && *at != '"'; at++) {
        if (*at != '\\') {
            add(&text, at, 1);
            continue;
        }
        at++;
        if (*at == 'u') {
            unsigned code = 0;
            sscanf(at + 1, "%4x", &code);
            char byte = (char)code;
            add(&text, &byte, 1);
            at += 4;
        } else {
            add(&text, *at == 'n' ? "\n" : *at == 't' ? "\t" : *at == 'r' ? "\r" : at, 1);
        }
    }
    return text.chars;
}

static char *own(const char *given) { /* what the host gave, as a string of ours */
    char *text = given ? strdup(given) : NULL;
    host->free_string(given);
    return text;
}

static void note(const char *kind, const char *task, const char *json) {
    char *agent = own(host->get_active_agent_id());
    pthread_mutex_lock(&guard);
    struct text text = {0};
    if (seen)
        put(&text, seen);
    put(&text, kind);
    put(&text, " ");
    put(&text, task);
    put(&text, " ");
    put(&text, agent ? agent : "-");
    put(&text, " ");
    put(&text, json);
    put(&text, "\n");
    free(seen);
    seen = text.chars;
    pthread_mutex_unlock(&guard);
    free(agent);
}

/* ---- one host call, as lines: the slot's number, then its arguments; (null) is NULL ---- */

static char *host_call(const char *payload) {
    char *copy = strdup(payload), *args[3] = {NULL, NULL, NULL}, *rest = NULL, *line;
    int slot = atoi(strtok_r(copy, "\n", &rest)), count = 0;
    while (count < 3 && (line = strtok_r(NULL, "\n", &rest)))
        args[count++] = strcmp(line, "(null)") ? line : NULL;
    const char *given = NULL;
    switch (slot) {
    case 1: given = host->config_get(args[0]); break;
    case 2: host->config_set(args[0], args[1]); break;
    case 7:
        dispatching = 1;
        given = host->dispatch(args[0]);
        dispatching = 0;
        break;
    case 8: given = host->task_status(args[0]); break;
    case 9: host->dispatch_cancel(args[0]); break;
    case 11: given = host->complete(args[0]); break;
    case 12: given = host->complete_stream(args[0], NULL, NULL); break;
    case 13: given = host->embed(args[0]); break;
    case 14: given = host->list_models(); break;
    case 17: given = host->list_active_tasks(); break;
    case 18: host->send_draft(args[0], args[1]); break;
    case 19: host->dispatch_interrupt(args[0], args[1]); break;
    case 21: host->complete_cancel(args[0]); break;
    case 22: given = host->get_active_agent_id(); break;
    default: break;
    }
    free(copy);
    char *answer = own(given);
    return answer ? answer : strdup("(null)");
}

struct asked {
    const char *payload;
    char *answer;
};

static void *ask_elsewhere(void *given) {
    struct asked *asked = given;
    asked->answer = host_call(asked->payload);
    return NULL;
}

/* ---- streams: the request, then the id to cancel at the first piece that holds a word ---- */

struct stream {
    struct text pieces;
    char *cancel, *at;
};

static void on_chunk(const char *piece, void *user_data) {
    struct stream *stream = user_data;
    put(&stream->pieces, stream->pieces.used ? "," : "[");
    put(&stream->pieces, piece);
    if (stream->cancel && strstr(piece, stream->at))
        host->complete_cancel(stream->cancel);
}

static char *streamed(const char *payload) {
    char *copy = strdup(payload), *rest = NULL;
    char *request = strtok_r(copy, "\n", &rest);
    struct stream stream = {{0}, strtok_r(NULL, "\n", &rest), strtok_r(NULL, "\n", &rest)};
    char *answer = own(host->complete_stream(request, on_chunk, &stream));
    struct text text = {0};
    put(&text, "{\"chunks\":");
    put(&text, stream.pieces.used ? stream.pieces.chars : "[");
    put(&text, "],\"answer\":");
    put(&text, answer ? answer : "null");
    put(&text, "}");
    free(answer);
    free(stream.pieces.chars);
    free(copy);
    return text.chars;
}

/* ---- the table ---- */

static void free_string(const char *text) { free((void *)text); }
static osr_plugin_ctx_t init(void) { return malloc(1); }
static void destroy(osr_plugin_ctx_t ctx) { free(ctx); }

static const char *get_manifest(osr_plugin_ctx_t ctx) {
    (void)ctx;
    return strdup(MANIFEST);
}

static char *succeeded(const char *result) {
    struct text text = {0};
    put(&text, "{\"ok\":true,\"result\":");
    put(&text, result);
    put(&text, "}");
    return text.chars;
}

static const char *invoke(osr_plugin_ctx_t ctx, const char *type, const char *id, const char *payload) {
    (void)ctx;
    if (!strcmp(type, "artifact")) {
        note("artifact", id, payload);
        return strdup("ignored");
    }
    if (!strcmp(id, "host"))
        return host_call(payload);
    if (!strcmp(id, "host_elsewhere")) {
        pthread_t thread;
        struct asked asked = {payload, NULL};
        pthread_create(&thread, NULL, ask_elsewhere, &asked);
        pthread_join(thread, NULL);
        return asked.answer;
    }
    if (!strcmp(id, "stream"))
        return streamed(payload);
    if (!strcmp(id, "ask")) { /* the same host call, as a tool of an agent */
        char *lines = member(payload, "lines");
        char *answer = host_call(lines);
        struct text text = {0};
        put_quoted(&text, answer);
        char *said = succeeded(text.chars);
        free(lines);
        free(answer);
        free(text.chars);
        return said;
    }
    if (!strcmp(id, "echo"))
        return succeeded(payload);
    if (!strcmp(id, "said")) { /* the answer is what the test wants said */
        char *words = member(payload, "words");
        return words ? words : strdup("");
    }
    if (!strcmp(id, "big")) {
        char *text = malloc(150001);
        memset(text, 'x', 150000);
        text[150000] = 0;
        return text;
    }
    if (!strcmp(id, "null"))
        return NULL;
    if (!strcmp(id, "sleep"))
        for (;;)
            pause();
    if (!strcmp(id, "crash"))
        abort();
    if (!strcmp(id, "whose")) {
        char *agent = own(host->get_active_agent_id());
        struct text text = {0};
        put_quoted(&text, agent);
        char *said = succeeded(text.chars);
        free(agent);
        free(text.chars);
        return said;
    }
    if (!strcmp(id, "alone_one") || !strcmp(id, "alone_two")) { /* counts how many are in here at once */
        pthread_mutex_lock(&guard);
        if (++inside > most_inside)
            most_inside = inside;
        pthread_mutex_unlock(&guard);
        free(own(host->list_models()));
        pthread_mutex_lock(&guard);
        inside--;
        char text[16];
        snprintf(text, sizeof text, "%d", most_inside);
        pthread_mutex_unlock(&guard);
        return succeeded(text);
    }
    if (!strcmp(id, "seen")) {
        pthread_mutex_lock(&guard);
        char *text = strdup(seen ? seen : "");
        pthread_mutex_unlock(&guard);
        return text;
    }
    return strdup("{\"ok\":false,\"kind\":\"tool_not_found\",\"message\":\"unknown\",\"retryable\":false}");
}

/* The body of a request says what to answer, or the route does. */
static const char *handle_route(osr_plugin_ctx_t ctx, const char *request) {
    (void)ctx;
    char *route = member(request, "route_id");
    struct text text = {0};
    if (!strcmp(route, "raw")) {
        put(&text, "");
        char *body = member(request, "body");
        put(&text, body);
        free(body);
    } else if (!strcmp(route, "null")) {
        free(route);
        return NULL;
    } else if (!strcmp(route, "sleep")) {
        for (;;)
            pause();
    } else {
        char *agent = own(host->get_active_agent_id());
        put(&text, "{\"status\":200,\"headers\":{\"Content-Type\":\"application/json\",\"X-Agent\":");
        put_quoted(&text, agent);
        put(&text, "},\"body\":");
        put_quoted(&text, request);
        put(&text, "}");
        free(agent);
    }
    free(route);
    return text.chars;
}

static void on_task_event(osr_plugin_ctx_t ctx, const char *task, int event, const char *json) {
    (void)ctx;
    char kind[16];
    snprintf(kind, sizeof kind, "%d", event);
    if (dispatching)
        note("early", task, json);
    note(kind, task, json);
#ifdef CRASH_AT
    if (event == CRASH_AT)
        abort();
#endif
}

static osr_plugin_api table = {
    .free_string = free_string,
    .init = init,
    .destroy = destroy,
    .get_manifest = get_manifest,
    .invoke = invoke,
    .version = ABI,
#ifndef BARE
    .handle_route = handle_route,
    .on_task_event = on_task_event,
#endif
};
const void *const kept_alive[] = {handle_route, on_task_event};

#ifdef V1
const osr_plugin_api *osaurus_plugin_entry(void) { return &table; }
#else
const osr_plugin_api *osaurus_plugin_entry_v2(const osr_host_api *given) {
    host = given;
    return &table;
}
#endif
