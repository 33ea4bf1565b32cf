/* A well-behaved plugin that does what a test asks of it. Macros make variants of it that lack something. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "osaurus_plugin.h"

#ifndef ABI
#define ABI OSR_ABI_VERSION_6
#endif
#ifndef MANIFEST
#define MANIFEST "{\"plugin_id\":\"test.toy\",\"capabilities\":{}}"
#endif

static const osr_host_api *host;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static char seen[1 << 16];
static int inside, most_inside;

static char *join(const char *a, const char *b, const char *c) {
    char *text = malloc(strlen(a) + strlen(b) + strlen(c) + 1);
    strcpy(text, a);
    strcat(text, b);
    strcat(text, c);
    return text;
}

static void note(const char *kind, const char *a, const char *b) {
    const char *agent = host ? host->get_active_agent_id() : NULL;
    pthread_mutex_lock(&guard);
    size_t used = strlen(seen);
    snprintf(seen + used, sizeof seen - used, "%s %s=%s@%s;", kind, a, b, agent ? agent : "-");
    pthread_mutex_unlock(&guard);
    if (host)
        host->free_string(agent);
}

static char *own(const char *given) { /* what the host gave, as a string of ours */
    char *text = strdup(given ? given : "NULL");
    host->free_string(given);
#ifdef FREES_TWICE
    host->free_string(given);
#endif
    return text;
}

/* ---- one host call, as lines: the slot's number, then its arguments; (null) is NULL ---- */

static char *host_call(const char *payload) {
    char *copy = strdup(payload), *args[4] = {NULL, NULL, NULL, NULL}, *rest = NULL, *line;
    int slot = atoi(strtok_r(copy, "\n", &rest)), count = 0;
    while (count < 4 && (line = strtok_r(NULL, "\n", &rest)))
        args[count++] = strcmp(line, "(null)") ? line : NULL;
    const char *given = "VOID";
    int gives = 1;
    switch (slot) {
    case 1: given = host->config_get(args[0]); break;
    case 2: host->config_set(args[0], args[1]); gives = 0; break;
    case 3: host->config_delete(args[0]); gives = 0; break;
    case 4: given = host->db_exec(args[0], args[1]); break;
    case 5: given = host->db_query(args[0], args[1]); break;
    case 6: host->log(atoi(args[0]), args[1]); gives = 0; break;
    case 7: given = host->dispatch(args[0]); break;
    case 8: given = host->task_status(args[0]); break;
    case 9: host->dispatch_cancel(args[0]); gives = 0; break;
    case 10: host->dispatch_clarify(args[0], args[1]); gives = 0; break;
    case 11: given = host->complete(args[0]); break;
    case 12: given = host->complete_stream(args[0], NULL, NULL); break;
    case 13: given = host->embed(args[0]); break;
    case 14: given = host->list_models(); break;
    case 15: given = host->http_request(args[0]); break;
    case 16: given = host->file_read(args[0]); break;
    case 17: given = host->list_active_tasks(); break;
    case 18: host->send_draft(args[0], args[1]); gives = 0; break;
    case 19: host->dispatch_interrupt(args[0], args[1]); gives = 0; break;
    case 20: given = host->dispatch_add_issue(args[0], args[1]); break;
    case 21: host->complete_cancel(args[0]); gives = 0; break;
    case 22: given = host->get_active_agent_id(); break;
    case 23: host->log_structured(atoi(args[0]), args[1], args[2]); gives = 0; break;
    case 24: host->free_string(NULL); gives = 0; break;
    default: gives = 0;
    }
    free(copy);
    return gives ? own(given) : strdup("VOID");
}

/* So many bytes, to a slot, or as the answer. */
static char *much(const char *payload) {
    int slot = 0;
    size_t size = 0;
    sscanf(payload, "%d %zu", &slot, &size);
    char *text = malloc(size + 1);
    memset(text, 'x', size);
    text[size] = '\0';
    const char *given = NULL;
    switch (slot) {
    case 0: return text;
    case 2: host->config_set("key", text); break;
    case 4: given = host->db_exec(text, NULL); break;
    case 6: host->log(OSR_LOG_INFO, text); break;
    case 12: given = host->complete_stream(text, NULL, NULL); break;
    }
    free(text);
    return own(given);
}

/* ---- streams ---- */

struct stream {
    char text[8192];
    const char *cancel;
    int calls_back, pieces;
};

static void on_chunk(const char *piece, void *user_data) {
    struct stream *stream = user_data;
    strncat(stream->text, piece, sizeof stream->text - strlen(stream->text) - 2);
    strcat(stream->text, "|");
    stream->pieces++;
    if (stream->cancel && stream->pieces == 1)
        host->complete_cancel(stream->cancel);
    if (stream->calls_back) {
        char *value = own(host->config_get(piece));
        strncat(stream->text, value, sizeof stream->text - strlen(stream->text) - 2);
        free(value);
    }
    if (stream->calls_back > 1) {
        struct stream inner = {.calls_back = stream->calls_back - 1};
        char *answer = own(host->complete_stream("inner", on_chunk, &inner));
        snprintf(stream->text + strlen(stream->text), sizeof stream->text - strlen(stream->text), "[%s%s]", inner.text,
                 answer);
        free(answer);
    }
}

static char *streamed(const char *request, const char *cancel, int calls_back) {
    struct stream stream = {.cancel = cancel, .calls_back = calls_back};
    char *answer = own(host->complete_stream(request, on_chunk, &stream));
    char *text = join(stream.text, "=", answer);
    free(answer);
    return text;
}

/* ---- threads of our own ---- */

struct work {
    const char *key;
    int rounds, right, with_agent;
};

static void *ask_often(void *given) {
    struct work *work = given;
    for (int i = 0; i < work->rounds; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s-%d", work->key, i);
        char *value = own(host->config_get(key));
        work->right += strcmp(value, key) == 0;
        free(value);
        const char *agent = host->get_active_agent_id();
        work->with_agent += agent != NULL;
        host->free_string(agent);
        host->log(OSR_LOG_DEBUG, key);
    }
    return NULL;
}

static char *threads(const char *payload) {
    int count = 0, rounds = 0, right = 0, with_agent = 0;
    sscanf(payload, "%d %d", &count, &rounds);
    pthread_t *ids = calloc(count, sizeof *ids);
    struct work *works = calloc(count, sizeof *works);
    char (*keys)[16] = calloc(count, sizeof *keys);
    for (int i = 0; i < count; i++) {
        snprintf(keys[i], sizeof keys[i], "t%d", i);
        works[i] = (struct work){keys[i], rounds, 0, 0};
        pthread_create(&ids[i], NULL, ask_often, &works[i]);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(ids[i], NULL);
        right += works[i].right;
        with_agent += works[i].with_agent;
    }
    free(ids);
    free(works);
    free(keys);
    char text[64];
    snprintf(text, sizeof text, "right %d, with an agent %d", right, with_agent);
    return strdup(text);
}

static void *stream_elsewhere(void *given) { return streamed(given, NULL, 1); }

static void *log_later(void *given) {
    host->log(OSR_LOG_INFO, given);
    free(given);
    return NULL;
}

static void *ask_after_the_end(void *given) {
    int fd = (int)(intptr_t)given;
    host->free_string(host->config_get("until the end"));
    char *answer = own(host->complete("{}")), *value = own(host->config_get("key")), *agent = own(host->get_active_agent_id());
    host->config_set("key", "value");
    host->log(OSR_LOG_INFO, "nobody hears this");
    dprintf(fd, "%s %s %s\n", answer, value, agent);
    free(answer);
    free(value);
    free(agent);
    return NULL;
}

/* ---- the table ---- */

static void free_string(const char *text) { free((void *)text); }

static osr_plugin_ctx_t init(void) {
#ifdef INIT_FAILS
    return NULL;
#endif
    if (host) {
        char *agent = own(host->get_active_agent_id());
        host->log(OSR_LOG_INFO, strcmp(agent, "NULL") ? "init with an agent" : "init");
        free(agent);
    }
    return malloc(1);
}

static void destroy(osr_plugin_ctx_t ctx) {
    if (host) {
        char *value = own(host->config_get("destroying"));
        host->log(OSR_LOG_INFO, value);
        free(value);
    }
    free(ctx);
}

static const char *get_manifest(osr_plugin_ctx_t ctx) {
    (void)ctx;
#ifdef NO_MANIFEST
    return NULL;
#endif
    return strdup(MANIFEST);
}

static const char *invoke(osr_plugin_ctx_t ctx, const char *type, const char *id, const char *payload) {
    (void)ctx;
    if (!strcmp(id, "echo")) {
        char *text = join("{\"echo\":", payload, "}");
        return text;
    }
    if (!strcmp(id, "say"))
        return join(type, " ", payload);
    if (!strcmp(id, "raw"))
        return strdup(payload);
    if (!strcmp(id, "null") || (!host && strcmp(id, "seen")))
        return NULL;
    if (!strcmp(id, "bytes"))
        return strdup("\xff\xfe not UTF-8");
    if (!strcmp(id, "sleep"))
        for (;;)
            pause();
    if (!strcmp(id, "config_probe")) {
        char *value = own(host->config_get("some_key"));
        char *text = !strcmp(value, "NULL") ? strdup("{\"config\":null}") : join("{\"config\":\"", value, "\"}");
        free(value);
        return text;
    }
    if (!strcmp(id, "env_probe"))
        return strdup(getenv(payload) ? "leaked" : "absent");
    if (!strcmp(id, "host"))
        return host_call(payload);
    if (!strcmp(id, "much"))
        return much(payload);
    if (!strcmp(id, "version")) {
        char text[32];
        snprintf(text, sizeof text, "%u", host ? host->version : 0);
        return strdup(text);
    }
    if (!strcmp(id, "agents")) { /* the same answer many times, each freed */
        char *first = own(host->get_active_agent_id());
        for (int i = 0; i < 256; i++) {
            char *again = own(host->get_active_agent_id());
            int same = !strcmp(first, again);
            free(again);
            if (!same) {
                free(first);
                return strdup("changed");
            }
        }
        return first;
    }
    if (!strcmp(id, "stream"))
        return streamed(payload, NULL, 0);
    if (!strcmp(id, "stream_cancel"))
        return streamed(payload, payload, 0);
    if (!strcmp(id, "stream_calls_back"))
        return streamed(payload, NULL, 1);
    if (!strcmp(id, "stream_in_stream"))
        return streamed(payload, NULL, 2);
    if (!strcmp(id, "stream_elsewhere")) {
        pthread_t thread;
        void *text;
        pthread_create(&thread, NULL, stream_elsewhere, (void *)payload);
        pthread_join(thread, &text);
        return text;
    }
    if (!strcmp(id, "sql")) { /* statements in a row, and every tenth time something else between them */
        int right = 0;
        for (int i = 0; i < atoi(payload); i++) {
            char sql[32];
            snprintf(sql, sizeof sql, "statement %d", i);
            char *answer = own(i % 2 ? host->db_exec(sql, NULL) : host->db_query(sql, "[]"));
            right += !strcmp(answer, sql);
            free(answer);
            if (i % 10 == 9) {
                char *value = own(host->config_get(sql));
                right += !strcmp(value, sql);
                free(value);
            }
        }
        char text[32];
        snprintf(text, sizeof text, "%d", right);
        return strdup(text);
    }
    if (!strcmp(id, "asks")) { /* so many host calls */
        for (int i = 0; i < atoi(payload); i++)
            host->free_string(host->config_get("some key"));
        return strdup("asked");
    }
    if (!strcmp(id, "insert")) { /* so many rows, each by a statement of its own */
        for (int i = 0; i < atoi(payload); i++) {
            char params[64];
            snprintf(params, sizeof params, "[\"a note of middling length\", %d]", i);
            char *answer = own(host->db_exec("INSERT INTO notes (title, number) VALUES (?, ?)", params));
            int failed = !strstr(answer, "changes");
            if (failed)
                return answer;
            free(answer);
        }
        return strdup("inserted");
    }
    if (!strcmp(id, "threads"))
        return threads(payload);
    if (!strcmp(id, "log_later")) {
        pthread_t thread;
        pthread_create(&thread, NULL, log_later, strdup(payload));
        pthread_detach(thread);
        return strdup("started");
    }
    if (!strcmp(id, "ask_after_the_end")) {
        pthread_t thread;
        pthread_create(&thread, NULL, ask_after_the_end, (void *)(intptr_t)atoi(payload));
        pthread_detach(thread);
        return strdup("started");
    }
    if (!strcmp(id, "seen")) {
        pthread_mutex_lock(&guard);
        char *text = strdup(seen);
        pthread_mutex_unlock(&guard);
        return text;
    }
    if (!strcmp(id, "overlap")) {
        char text[16];
        snprintf(text, sizeof text, "%d", most_inside);
        return strdup(text);
    }
    return strdup("{\"error\":\"unknown\"}");
}

static const char *handle_route(osr_plugin_ctx_t ctx, const char *request) {
    (void)ctx;
    char *agent = own(host->get_active_agent_id());
    char *text = join(request, " for ", agent);
    free(agent);
    return text;
}

static void on_config_changed(osr_plugin_ctx_t ctx, const char *key, const char *value) {
    (void)ctx;
    pthread_mutex_lock(&guard);
    if (++inside > most_inside)
        most_inside = inside;
    pthread_mutex_unlock(&guard);
    note("config", key, value);
    host->free_string(host->config_get(key));
    pthread_mutex_lock(&guard);
    inside--;
    pthread_mutex_unlock(&guard);
}

static void on_task_event(osr_plugin_ctx_t ctx, const char *task, int event, const char *json) {
    (void)ctx;
    char kind[16];
    snprintf(kind, sizeof kind, "event%d", event);
    note(kind, task, json);
}

#ifndef LACKING_free_string
#define LACKING_free_string free_string
#endif
#ifndef LACKING_init
#define LACKING_init init
#endif
#ifndef LACKING_destroy
#define LACKING_destroy destroy
#endif
#ifndef LACKING_get_manifest
#define LACKING_get_manifest get_manifest
#endif
#ifndef LACKING_invoke
#define LACKING_invoke invoke
#endif

#ifdef V1
/* Just what the first version had: whoever reads further reads what is none of its business. */
static const struct {
    osr_free_string_fn free_string;
    osr_init_fn init;
    osr_destroy_fn destroy;
    osr_get_manifest_fn get_manifest;
    osr_invoke_fn invoke;
} table = {free_string, init, destroy, get_manifest, invoke};

const osr_plugin_api *osaurus_plugin_entry(void) {
    /* The table ends where readable memory ends. */
    long page = sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + page, page, PROT_NONE);
    return memcpy(pages + page - sizeof table, &table, sizeof table);
}
const osr_handle_route_fn kept_alive[] = {handle_route};
const osr_on_config_changed_fn kept_alive_too[] = {on_config_changed};
const osr_on_task_event_fn kept_alive_as_well[] = {on_task_event};
#else
static osr_plugin_api table = {
    .free_string = LACKING_free_string,
    .init = LACKING_init,
    .destroy = LACKING_destroy,
    .get_manifest = LACKING_get_manifest,
    .invoke = LACKING_invoke,
    .version = ABI,
#ifndef BARE
    .handle_route = handle_route,
    .on_config_changed = on_config_changed,
    .on_task_event = on_task_event,
#endif
};
const void *const kept_alive[] = {free_string, init, destroy, get_manifest, invoke, handle_route, on_config_changed,
                                  on_task_event, &table};

#ifndef NO_ENTRY
const osr_plugin_api *osaurus_plugin_entry_v2(const osr_host_api *given) {
    host = given;
#ifdef NO_TABLE
    return NULL;
#endif
    host->log(OSR_LOG_INFO, "entry");
    return &table;
}

#ifdef BOTH
const osr_plugin_api *osaurus_plugin_entry(void) { return NULL; }
#endif
#endif
#endif
