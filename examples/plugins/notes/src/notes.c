/* Notes: three tools on the plugin's own database, and a value that each agent has for itself. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "little_json.h"
#include "osaurus_plugin.h"

static const osr_host_api *host;

static const char MANIFEST[] =
    "{"
    "  \"plugin_id\": \"acme.notes\","
    "  \"name\": \"Notes\","
    "  \"version\": \"1.0.0\","
    "  \"description\": \"Keeps notes.\","
    "  \"instructions\": \"Notes are short. Look for one before you add another.\","
    "  \"capabilities\": {"
    "    \"tools\": [{"
    "      \"id\": \"add_note\","
    "      \"description\": \"Keep a note. One with the same title is replaced.\","
    "      \"parameters\": {"
    "        \"type\": \"object\","
    "        \"properties\": {"
    "          \"title\": {\"type\": \"string\", \"description\": \"A few words to find it by\"},"
    "          \"body\": {\"type\": \"string\", \"description\": \"The note itself\"}"
    "        },"
    "        \"required\": [\"title\", \"body\"],"
    "        \"additionalProperties\": false"
    "      },"
    "      \"permission_policy\": \"auto\""
    "    }, {"
    "      \"id\": \"list_notes\","
    "      \"description\": \"Show the notes that there are, the newest first.\","
    "      \"parameters\": {"
    "        \"type\": \"object\","
    "        \"properties\": {\"words\": {\"type\": \"string\", \"description\": \"Only those with these words\"}},"
    "        \"additionalProperties\": false"
    "      },"
    "      \"permission_policy\": \"auto\""
    "    }, {"
    "      \"id\": \"forget_note\","
    "      \"description\": \"Remove a note.\","
    "      \"parameters\": {"
    "        \"type\": \"object\","
    "        \"properties\": {\"title\": {\"type\": \"string\"}},"
    "        \"required\": [\"title\"],"
    "        \"additionalProperties\": false"
    "      },"
    "      \"permission_policy\": \"ask\""
    "    }],"
    "    \"config\": {\"title\": \"Notes\", \"sections\": [{\"title\": \"Notes\", \"fields\": ["
    "      {\"key\": \"signature\", \"type\": \"text\", \"label\": \"Signature under each note\"}"
    "    ]}]}"
    "  }"
    "}";

static char *refused(const char *kind, const char *message, const char *field)
{
    if (field)
        return lj_write("{\"ok\":false,\"kind\":", kind, ",\"message\":", message, ",\"field\":", field, "}", NULL);
    return lj_write("{\"ok\":false,\"kind\":", kind, ",\"message\":", message, "}", NULL);
}

/* The envelope for an answer of the database that is an error; NULL for one that is not. */
static char *trouble(const char *answer)
{
    if (answer && !lj_find(answer, "error"))
        return NULL;
    char *words = lj_string(lj_find(answer, "message"));
    char *envelope = refused("execution_error", words ? words : "The database gave no answer.", NULL);
    free(words);
    return envelope;
}

static char *ready(void)
{
    const char *answer = host->db_exec(
        "CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, title TEXT NOT NULL UNIQUE, body TEXT NOT NULL)",
        NULL);
    char *envelope = trouble(answer);
    host->free_string(answer);
    return envelope;
}

static char *add(const char *payload)
{
    char *title = lj_string(lj_find(payload, "title")), *body = lj_string(lj_find(payload, "body"));
    char *envelope = NULL;
    if (!title || !*title)
        envelope = refused("invalid_args", "A note needs a title.", "title");
    else if (!body)
        envelope = refused("invalid_args", "A note needs a body.", "body");
    else
        envelope = ready();
    if (!envelope) {
        const char *signature = host->config_get("signature"); /* NULL where the agent has none, or no agent calls */
        struct lj signed_body = {0};
        lj_add(&signed_body, body);
        if (signature && *signature) {
            lj_add(&signed_body, "\n");
            lj_add(&signed_body, signature);
        }
        host->free_string(signature);
        char *params = lj_write("{\":title\":", title, ",\":body\":", signed_body.text, "}", NULL);
        const char *answer = host->db_exec("INSERT INTO notes (title, body) VALUES (:title, :body) "
                                           "ON CONFLICT (title) DO UPDATE SET body = :body",
                                           params);
        envelope = trouble(answer);
        if (!envelope)
            envelope = lj_write("{\"ok\":true,\"result\":{\"title\":", title, "}}", NULL);
        host->free_string(answer);
        free(signed_body.text);
        free(params);
        char *fields = lj_write("{\"title\":", title, "}", NULL);
        host->log_structured(OSR_LOG_INFO, "A note was kept.", fields);
        free(fields);
    }
    free(title);
    free(body);
    return envelope;
}

static char *list(const char *payload)
{
    char *envelope = ready();
    if (envelope)
        return envelope;
    char *words = lj_string(lj_find(payload, "words"));
    char *params = lj_write("[", words ? words : "", "]", NULL);
    const char *answer = host->db_query("SELECT id, title, body FROM notes "
                                        "WHERE instr(lower(title || ' ' || body), lower(?)) ORDER BY id DESC",
                                        params);
    envelope = trouble(answer);
    if (!envelope) {
        char *rows = lj_raw(lj_find(answer, "rows"));
        struct lj out = {0};
        lj_add(&out, "{\"ok\":true,\"result\":{\"notes\":");
        lj_add(&out, rows ? rows : "[]");
        lj_add(&out, "}}");
        envelope = out.text;
        free(rows);
    }
    host->free_string(answer);
    free(words);
    free(params);
    return envelope;
}

static char *forget(const char *payload)
{
    char *title = lj_string(lj_find(payload, "title"));
    if (!title)
        return refused("invalid_args", "Which note?", "title");
    char *envelope = ready();
    if (!envelope) {
        char *params = lj_write("[", title, "]", NULL);
        const char *answer = host->db_exec("DELETE FROM notes WHERE title = ?", params);
        envelope = trouble(answer);
        if (!envelope && !lj_number(lj_find(answer, "changes"), 0))
            envelope = refused("not_found", "There is no such note. list_notes shows what there is.", "title");
        if (!envelope)
            envelope = lj_write("{\"ok\":true,\"result\":{\"forgotten\":", title, "}}", NULL);
        host->free_string(answer);
        free(params);
    }
    free(title);
    return envelope;
}

static const char *invoke(osr_plugin_ctx_t context, const char *type, const char *id, const char *payload)
{
    (void)context;
    if (strcmp(type, "tool") == 0) {
        if (strcmp(id, "add_note") == 0)
            return add(payload);
        if (strcmp(id, "list_notes") == 0)
            return list(payload);
        if (strcmp(id, "forget_note") == 0)
            return forget(payload);
    }
    return refused("tool_not_found", "There is no such tool.", NULL);
}

/* Told of a value: whose it is, is asked each time, since one plugin serves all agents. */
static void on_config_changed(osr_plugin_ctx_t context, const char *key, const char *value)
{
    (void)context;
    const char *agent = host->get_active_agent_id();
    if (strcmp(key, "signature") == 0) {
        char *fields = lj_write("{\"agent\":", agent ? agent : "", "}", NULL);
        host->log_structured(OSR_LOG_DEBUG, *value ? "There is a signature." : "There is no signature.", fields);
        free(fields);
    }
    host->free_string(agent);
}

static osr_plugin_ctx_t init(void)
{
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

static const osr_plugin_api API = {
    .free_string = free_string,
    .init = init,
    .destroy = destroy,
    .get_manifest = get_manifest,
    .invoke = invoke,
    .version = OSR_ABI_VERSION_6,
    .on_config_changed = on_config_changed,
};

const osr_plugin_api *osaurus_plugin_entry_v2(const osr_host_api *given)
{
    host = given;
    return &API;
}
