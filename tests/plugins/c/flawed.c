/* A plugin with one flaw, chosen by a macro: what `fairlead plugin test` has to find. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "osaurus_plugin.h"

#ifndef MANIFEST
#define MANIFEST \
    "{\"plugin_id\":\"test.flawed\",\"version\":\"1.0.0\",\"capabilities\":{" \
    "\"tools\":[{\"id\":\"work\",\"description\":\"Work.\",\"parameters\":{\"type\":\"object\"," \
    "\"properties\":{\"how\":{\"type\":\"string\"}},\"required\":[\"how\"]}}]," \
    "\"routes\":[{\"id\":\"r\",\"path\":\"/r/:x\",\"methods\":[\"GET\"],\"auth\":\"none\"}]}}"
#endif

static const osr_host_api *host;
static int times;

static void free_string(const char *text) {
#ifndef KEEPS_STRINGS
    free((void *)text);
#else
    (void)text;
#endif
}

static osr_plugin_ctx_t init(void) {
#ifdef FALLS_IN_INIT
    abort();
#endif
#ifdef READS
    if (fopen(READS, "r"))
        abort();
#endif
    return malloc(1);
}

static void destroy(osr_plugin_ctx_t ctx) {
#ifdef FALLS_AT_THE_END
    abort();
#endif
    free(ctx);
}

static const char *get_manifest(osr_plugin_ctx_t ctx) {
    (void)ctx;
#ifdef CHANGES_ITS_MIND
    char text[512];
    snprintf(text, sizeof text, "{\"plugin_id\":\"test.flawed\",\"version\":\"1.0.%d\",\"capabilities\":{}}", times++);
    return strdup(text);
#endif
    return strdup(MANIFEST);
}

static const char *invoke(osr_plugin_ctx_t ctx, const char *type, const char *id, const char *payload) {
    (void)ctx;
    (void)payload;
    if (strcmp(type, "tool") || strcmp(id, "work"))
        return strdup("{\"ok\":false,\"kind\":\"tool_not_found\",\"message\":\"There is no such tool.\"}");
    const char *value = host->config_get("key");
#ifdef TRUSTS_ITS_HOST
    times += (int)strlen(value); /* NULL where there is none */
#endif
#ifdef READS_BLINDLY
    const char *rows = host->db_query("SELECT 1", NULL);
    times += (int)strlen(strstr(rows, "\"rows\""));
    host->free_string(rows);
#endif
    (void)value;
#ifndef LOSES_STRINGS
    host->free_string(value);
#endif
#ifdef FREES_TWICE
    host->free_string(value);
#endif
#ifdef FREES_ITS_OWN
    char *own = strdup("own");
    host->free_string(own);
    free(own);
#endif
#ifdef LEAKS
    if (!malloc(64))
        return NULL;
#endif
#ifdef FALLS_ON_BAD_ARGUMENTS
    if (!strchr(payload, '{'))
        abort();
#endif
#ifdef HANGS
    for (;;)
        pause();
#endif
#ifdef IS_NOT_UTF8
    return strdup("{\"ok\":true,\"result\":\"\xff\"}");
#endif
#ifdef GIVES_NULL
    return NULL;
#endif
#ifdef GIVES_TEXT
    return strdup("fine");
#endif
    return strdup("{\"ok\":true,\"result\":null}");
}

static const char *handle_route(osr_plugin_ctx_t ctx, const char *request) {
    (void)ctx;
    (void)request;
#ifdef ANSWERS_NOTHING
    return strdup("{\"body\":\"no status\"}");
#endif
    return strdup("{\"status\":200}");
}

static void on_config_changed(osr_plugin_ctx_t ctx, const char *key, const char *value) {
    (void)ctx;
    (void)value;
    const char *agent = host->get_active_agent_id();
    (void)agent;
#ifndef LOSES_AGENTS
    host->free_string(agent);
#endif
#ifdef FALLS_AT_THE_PROBE
    if (!strcmp(key, "__osaurus_abi_probe__"))
        abort();
#else
    (void)key;
#endif
}

static void on_task_event(osr_plugin_ctx_t ctx, const char *task, int event, const char *json) {
    (void)ctx;
    (void)task;
    (void)json;
#ifdef FALLS_AT_THE_FUTURE
    if (event > OSR_TASK_EVENT_DRAFT)
        abort();
#else
    (void)event;
#endif
}

static osr_plugin_api table = {
    .free_string = free_string,
    .init = init,
#ifndef LACKS_DESTROY
    .destroy = destroy,
#endif
    .get_manifest = get_manifest,
#ifndef LACKS_INVOKE
    .invoke = invoke,
#endif
    .version = OSR_ABI_VERSION_6,
#ifndef LACKS_ROUTES
    .handle_route = handle_route,
#endif
    .on_config_changed = on_config_changed,
    .on_task_event = on_task_event,
};
const void *const kept_alive[] = {destroy, invoke, handle_route, &times};

const osr_plugin_api *osaurus_plugin_entry_v2(const osr_host_api *given) {
    host = given;
    return &table;
}

#ifdef FIRST_ENTRY
static osr_plugin_api half = {.init = init};
const osr_plugin_api *osaurus_plugin_entry(void) { return FIRST_ENTRY; }
const void *const kept_too[] = {&half};
#endif
