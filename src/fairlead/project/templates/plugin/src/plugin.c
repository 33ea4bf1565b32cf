/* my-app: one tool that greets, and one route that says that the plugin is well. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "osaurus_plugin.h"

static const osr_host_api *host;

static const char MANIFEST[] =
    "{"
    "  \"plugin_id\": \"com.example.my-app\","
    "  \"name\": \"my-app\","
    "  \"version\": \"0.1.0\","
    "  \"description\": \"Says hello.\","
    "  \"capabilities\": {"
    "    \"tools\": [{"
    "      \"id\": \"hello\","
    "      \"description\": \"Say hello to somebody.\","
    "      \"parameters\": {"
    "        \"type\": \"object\","
    "        \"properties\": {\"name\": {\"type\": \"string\", \"description\": \"Whom to greet.\"}},"
    "        \"required\": [\"name\"],"
    "        \"additionalProperties\": false"
    "      },"
    "      \"permission_policy\": \"ask\""
    "    }],"
    "    \"routes\": [{"
    "      \"id\": \"health\", \"path\": \"/health\", \"methods\": [\"GET\"], \"auth\": \"owner\""
    "    }]"
    "  }"
    "}";

/* What we return is the host's until it gives it back to our free_string. */
static const char *answer(const char *before, const char *middle, size_t length, const char *after)
{
    char *text = malloc(strlen(before) + length + strlen(after) + 1);
    if (!text)
        return NULL;
    strcpy(text, before);
    strncat(text, middle, length);
    return strcat(text, after);
}

/* A string in a flat JSON object, still escaped as it was sent, so that it can go into JSON again. */
static const char *string_at(const char *json, const char *key, size_t *length)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\"", key);
    const char *at = strstr(json, quoted);
    if (!at)
        return NULL;
    at += strlen(quoted);
    at += strspn(at, " \t\r\n:");
    if (*at++ != '"')
        return NULL;
    const char *end = at;
    while (*end && *end != '"')
        end += end[0] == '\\' && end[1] ? 2 : 1;
    *length = (size_t)(end - at);
    return at;
}

static osr_plugin_ctx_t init(void)
{
    host->log(OSR_LOG_INFO, "my-app is here");
    return malloc(1);
}

static void destroy(osr_plugin_ctx_t context)
{
    free(context);
}

static void free_string(const char *text)
{
    free((void *)text);
}

static const char *get_manifest(osr_plugin_ctx_t context)
{
    (void)context;
    return strdup(MANIFEST);
}

static const char *invoke(osr_plugin_ctx_t context, const char *type, const char *id, const char *payload)
{
    (void)context;
    if (strcmp(type, "tool") == 0 && strcmp(id, "hello") == 0) {
        size_t length = 0;
        const char *name = string_at(payload, "name", &length);
        if (!name)
            return strdup("{\"ok\":false,\"kind\":\"invalid_args\",\"message\":\"Whom to greet?\",\"field\":\"name\"}");
        return answer("{\"ok\":true,\"result\":{\"text\":\"Hello, ", name, length, "!\"}}");
    }
    return strdup("{\"ok\":false,\"kind\":\"tool_not_found\",\"message\":\"There is no such tool.\"}");
}

static const char *handle_route(osr_plugin_ctx_t context, const char *request)
{
    (void)context;
    (void)request;
    return strdup("{\"status\":200,\"headers\":{\"content-type\":\"application/json\"},\"body\":\"{\\\"well\\\":true}\"}");
}

static const osr_plugin_api API = {
    .free_string = free_string,
    .init = init,
    .destroy = destroy,
    .get_manifest = get_manifest,
    .invoke = invoke,
    .version = OSR_ABI_VERSION_6,
    .handle_route = handle_route,
};

const osr_plugin_api *osaurus_plugin_entry_v2(const osr_host_api *given)
{
    host = given;
    return &API;
}
