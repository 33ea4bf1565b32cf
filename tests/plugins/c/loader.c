/* A plugin that goes wrong at one moment of its life; macros say which. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "osaurus_plugin.h"

#ifndef MANIFEST
#define MANIFEST "{\"plugin_id\":\"test.loader\",\"version\":\"1.0.0\",\"capabilities\":{}}"
#endif

static const osr_host_api *host;

#ifdef FALLS_WHEN_OPENED
__attribute__((constructor)) static void opened(void) { abort(); }
#endif

static void free_string(const char *text) { free((void *)text); }

static osr_plugin_ctx_t init(void) {
#ifdef FALLS_IN_INIT
    abort();
#endif
#ifdef HANGS_IN_INIT
    for (;;)
        pause();
#endif
#ifdef INIT_FAILS
    return NULL;
#endif
    host->log(OSR_LOG_INFO, "init");
    return malloc(1);
}

static void destroy(osr_plugin_ctx_t ctx) {
    host->log(OSR_LOG_INFO, "destroy");
    free(ctx);
}

#ifdef LIES
/* Whether it is installed by now: then there is a receipt beside it. */
static int installed(void) {
    Dl_info about;
    char path[4096];
    dladdr((void *)installed, &about);
    snprintf(path, sizeof path, "%s", about.dli_fname);
    strcpy(strrchr(path, '/') + 1, "receipt.json");
    return access(path, R_OK) == 0;
}
#endif

static const char *get_manifest(osr_plugin_ctx_t ctx) {
    (void)ctx;
#ifdef LIES
    if (installed())
        return strdup(LIES);
#endif
    return strdup(MANIFEST);
}

/* The path in {"path": "..."}; the test writes no escapes into it. */
static const char *invoke(osr_plugin_ctx_t ctx, const char *type, const char *id, const char *payload) {
    (void)ctx;
    (void)type;
    if (!strcmp(id, "fall"))
        abort();
    if (!strcmp(id, "hold")) {
        char path[4096] = "";
        const char *at = strstr(payload, "\"path\"");
        if (at)
            sscanf(at + 6, " : \"%4000[^\"]", path);
        FILE *gate = fopen(path, "r");
        if (!gate)
            return strdup("{\"ok\":false,\"kind\":\"not_found\",\"message\":\"no gate\"}");
        fgetc(gate);
        fclose(gate);
        host->log(OSR_LOG_INFO, "held");
    }
    return strdup("{\"ok\":true,\"result\":{\"text\":\"done\"}}");
}

static void on_config_changed(osr_plugin_ctx_t ctx, const char *key, const char *value) {
    (void)ctx;
    char line[512];
#ifdef HANGS_AT_THE_PROBE
    for (;;)
        pause();
#endif
#ifdef FALLS_AT_THE_PROBE
    if (!strcmp(key, "__osaurus_abi_probe__")) {
        /* As one does whose table lacks log_structured: it frees what is no string of the host. */
        ((void (*)(int, const char *, const char *))host->log_structured)(0, (const char *)8, NULL);
    }
#endif
    const char *agent = host->get_active_agent_id();
    snprintf(line, sizeof line, "%s=%s for %s", key, strlen(value) == 36 ? "a UUID" : value, agent ? agent : "nobody");
    host->free_string(agent);
    host->log(OSR_LOG_INFO, line);
}

static const osr_plugin_api table = {
    .free_string = free_string,
    .init = init,
    .destroy = destroy,
    .get_manifest = get_manifest,
    .invoke = invoke,
    .version = OSR_ABI_VERSION_6,
    .on_config_changed = on_config_changed,
};

const osr_plugin_api *osaurus_plugin_entry_v2(const osr_host_api *given) {
    host = given;
    return &table;
}
