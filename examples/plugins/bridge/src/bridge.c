/* A bridge between a messenger and an agent. README.md says what holds; the numbers here are those of its list. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "little_json.h"
#include "manifest.h"
#include "osaurus_plugin.h"
#include "uuid5.h"

#define PLUGIN "acme.bridge"
#define STRIPES 64

static const osr_host_api *host;
/* Whoever changes which task a conversation has, does it alone. */
static pthread_mutex_t state = PTHREAD_MUTEX_INITIALIZER;
/* (4) Whoever sends to a conversation draws a number, and sends alone when it is called. */
static struct {
    pthread_mutex_t door;
    pthread_cond_t next;
    unsigned drawn, called;
} queues[STRIPES];

/* ---- the host's answers, as strings of ours ---- */

static char *own(const char *given)
{
    char *text = given ? strdup(given) : NULL;
    host->free_string(given);
    return text;
}

static char *setting(const char *key, const char *otherwise)
{
    char *value = own(host->config_get(key));
    if (value && *value)
        return value;
    free(value);
    return otherwise ? strdup(otherwise) : NULL;
}

static void note(int level, const char *message, const char *task)
{
    char *fields = lj_write("{\"task\":", task ? task : "", "}", NULL);
    host->log_structured(level, message, fields);
    free(fields);
}

/* ---- the database ---- */

static char *exec(const char *sql, char *params)
{
    char *answer = own(host->db_exec(sql, params));
    free(params);
    if (!answer || lj_find(answer, "error"))
        host->log(OSR_LOG_ERROR, answer ? answer : "The database gave no answer.");
    return answer;
}

static long long changed(const char *sql, char *params)
{
    char *answer = exec(sql, params);
    long long changes = answer ? lj_number(lj_find(answer, "changes"), 0) : 0;
    free(answer);
    return changes;
}

/* The first row of a query as an object, to be freed; NULL for none. */
static char *row(const char *sql, char *params)
{
    char *answer = own(host->db_query(sql, params));
    free(params);
    char *found = answer ? lj_raw(lj_item(lj_find(answer, "rows"), 0)) : NULL;
    free(answer);
    return found;
}

static void ready(void)
{
    changed("CREATE TABLE IF NOT EXISTS chat_sessions "
            "(agent TEXT, chat TEXT, salt TEXT NOT NULL, PRIMARY KEY (agent, chat))",
            NULL);
    changed("CREATE TABLE IF NOT EXISTS active_dispatches "
            "(agent TEXT, chat TEXT, task TEXT, token TEXT UNIQUE, replied INTEGER NOT NULL DEFAULT 0, "
            "waiting INTEGER NOT NULL DEFAULT 0, pending TEXT, PRIMARY KEY (agent, chat))", /* (2) */
            NULL);
    changed("CREATE TABLE IF NOT EXISTS seen_updates (agent TEXT, id TEXT, PRIMARY KEY (agent, id))", NULL);
}

/* ---- the messenger ---- */

static int queue_of(const char *chat)
{
    unsigned hash = 5381;
    for (; *chat; chat++)
        hash = hash * 33 + (unsigned char)*chat;
    return (int)(hash % STRIPES);
}

static void take_turn(int queue)
{
    pthread_mutex_lock(&queues[queue].door);
    unsigned mine = queues[queue].drawn++;
    while (queues[queue].called != mine)
        pthread_cond_wait(&queues[queue].next, &queues[queue].door);
    pthread_mutex_unlock(&queues[queue].door);
}

static void end_turn(int queue)
{
    pthread_mutex_lock(&queues[queue].door);
    queues[queue].called++;
    pthread_cond_broadcast(&queues[queue].next);
    pthread_mutex_unlock(&queues[queue].door);
}

/* Call a method of the messenger; NULL when it went well, else why not, to be freed. */
static char *call_messenger(const char *method, const char *body)
{
    char *token = setting("bot_token", NULL), *base = setting("api_url", "https://api.telegram.org");
    if (!token) {
        free(base);
        return strdup("This agent has no bot_token. Set it: fairlead plugin config " PLUGIN);
    }
    struct lj url = {0};
    lj_add(&url, base);
    lj_add(&url, "/bot");
    lj_add(&url, token);
    lj_add(&url, "/");
    lj_add(&url, method);
    char *request = lj_write("{\"method\":\"POST\",\"url\":", url.text,
                             ",\"headers\":{\"Content-Type\":\"application/json\"},\"timeout_ms\":15000,\"body\":", body,
                             "}", NULL);
    char *answer = own(host->http_request(request));
    free(request);
    free(url.text);
    free(token);
    free(base);
    long long status = answer ? lj_number(lj_find(answer, "status"), 0) : 0;
    char *why = NULL;
    if (status < 200 || status > 299) {
        char *words = lj_string(lj_find(answer, status ? "body" : "message"));
        if (asprintf(&why, "The messenger did not take it (%lld): %.300s", status, words ? words : "no answer") < 0)
            why = NULL;
        free(words);
    }
    free(answer);
    return why;
}

static char *send_body(const char *chat, const char *method, char *body)
{
    int queue = queue_of(chat);
    take_turn(queue);
    char *why = call_messenger(method, body);
    end_turn(queue);
    free(body);
    return why;
}

/* What the bridge says for itself (6), or for a task that said nothing (7). */
static void say(const char *chat, const char *text)
{
    char *why = send_body(chat, "sendMessage", lj_write("{\"chat_id\":", chat, ",\"text\":", text, "}", NULL));
    if (why)
        host->log(OSR_LOG_WARN, why);
    free(why);
}

/* ---- tasks ---- */

static void new_token(char token[9])
{
    static const char letters[] = "abcdefghjkmnpqrstuvwxyz23456789x";
    unsigned char random[8];
    while (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        ;
    for (int i = 0; i < 8; i++)
        token[i] = letters[random[i] % 32];
    token[8] = 0;
}

static char *session_of(const char *agent, const char *chat)
{
    char *found = row("SELECT salt FROM chat_sessions WHERE agent = ? AND chat = ?",
                      lj_write("[", agent, ",", chat, "]", NULL));
    char *salt = lj_string(lj_find(found, "salt"));
    char name[400], session[37];
    snprintf(name, sizeof name, "%s/%s/%s", agent, chat, salt ? salt : "");
    uuid5(name, session);
    free(found);
    free(salt);
    return strdup(session);
}

/* Have the agent work on a message. Called with `state` held; gives what is to be said to the person, or NULL. */
static char *begin(const char *agent, const char *chat, const char *text)
{
    char token[9], *session = session_of(agent, chat);
    new_token(token);
    struct lj prompt = {0};
    lj_add(&prompt, text);
    lj_add(&prompt, "\n\n(From the messenger. Answer with the tool reply; the reply token is ");
    lj_add(&prompt, token); /* (1) */
    lj_add(&prompt, ".)");
    char *request = lj_write("{\"prompt\":", prompt.text, ",\"title\":", "Message", ",\"session_id\":", session,
                             ",\"tools\":[\"reply\",\"reply_typing\",\"reply_photo\"]}", NULL);
    char *answer = own(host->dispatch(request));
    char *task = lj_string(lj_find(answer, "id"));
    if (task) {
        changed("INSERT INTO active_dispatches (agent, chat, task, token) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (agent, chat) DO UPDATE SET task = excluded.task, token = excluded.token, "
                "replied = 0, waiting = 0, pending = NULL",
                lj_write("[", agent, ",", chat, ",", task, ",", token, "]", NULL));
    } else {
        changed("DELETE FROM active_dispatches WHERE agent = ? AND chat = ?",
                lj_write("[", agent, ",", chat, "]", NULL));
        host->log(OSR_LOG_WARN, answer ? answer : "dispatch gave nothing");
    }
    char *words = task ? NULL : strdup("I cannot work on that now. Please write again in a minute.");
    free(answer);
    free(request);
    free(task);
    free(prompt.text);
    free(session);
    return words;
}

static int runs(const char *task)
{
    char *answer = own(host->task_status(task)), *status = lj_string(lj_find(answer, "status"));
    int running = status && strcmp(status, "running") == 0;
    free(answer);
    free(status);
    return running;
}

/* A message of a person. */
static void received(const char *agent, const char *chat, const char *text)
{
    pthread_mutex_lock(&state);
    char *found = row("SELECT task, waiting, pending FROM active_dispatches WHERE agent = ? AND chat = ?",
                      lj_write("[", agent, ",", chat, "]", NULL));
    char *task = lj_string(lj_find(found, "task")), *pending = lj_string(lj_find(found, "pending"));
    char *words = NULL;
    if (!task || !runs(task)) {
        words = begin(agent, chat, text);
    } else if (lj_number(lj_find(found, "waiting"), 0)) {
        /* The agent asked, and this is the answer: it goes on in the same task. */
        changed("UPDATE active_dispatches SET waiting = 0 WHERE agent = ? AND chat = ?",
                lj_write("[", agent, ",", chat, "]", NULL));
        host->dispatch_interrupt(task, text);
    } else {
        /* (3) What runs is stopped; its last event starts the next task, with all that was written meanwhile. */
        struct lj all = {0};
        if (pending) {
            lj_add(&all, pending);
            lj_add(&all, "\n");
        }
        lj_add(&all, text);
        changed("UPDATE active_dispatches SET pending = ? WHERE agent = ? AND chat = ?",
                lj_write("[", all.text, ",", agent, ",", chat, "]", NULL));
        free(all.text);
        host->dispatch_interrupt(task, NULL);
    }
    pthread_mutex_unlock(&state);
    if (words)
        say(chat, words);
    free(words);
    free(found);
    free(task);
    free(pending);
}

static void reset(const char *agent, const char *chat)
{
    char salt[9];
    new_token(salt);
    pthread_mutex_lock(&state);
    char *found = row("SELECT task FROM active_dispatches WHERE agent = ? AND chat = ?",
                      lj_write("[", agent, ",", chat, "]", NULL));
    char *task = lj_string(lj_find(found, "task"));
    changed("DELETE FROM active_dispatches WHERE agent = ? AND chat = ?", lj_write("[", agent, ",", chat, "]", NULL));
    changed("INSERT INTO chat_sessions (agent, chat, salt) VALUES (?, ?, ?) "
            "ON CONFLICT (agent, chat) DO UPDATE SET salt = excluded.salt",
            lj_write("[", agent, ",", chat, ",", salt, "]", NULL));
    if (task)
        host->dispatch_cancel(task);
    pthread_mutex_unlock(&state);
    say(chat, "We begin anew."); /* (6) */
    free(found);
    free(task);
}

/* ---- the webhook ---- */

static char *answered(int status, const char *words)
{
    char head[64];
    snprintf(head, sizeof head, "{\"status\":%d,\"body\":", status);
    return lj_write(head, words, "}", NULL);
}

static int same(const char *a, const char *b)
{
    size_t length = strlen(a);
    unsigned char differs = length != strlen(b);
    for (size_t i = 0; i < length && !differs; i++)
        differs |= (unsigned char)(a[i] ^ b[i]);
    return !differs;
}

static char *webhook(const char *agent, const char *request)
{
    char *secret = setting("webhook_secret", NULL);
    char *shown = lj_string(lj_find(lj_find(request, "headers"), "x-telegram-bot-api-secret-token"));
    int trusted = secret && shown && same(secret, shown);
    free(secret);
    free(shown);
    if (!trusted)
        return answered(401, "The secret is missing or wrong.");
    changed("DELETE FROM seen_updates WHERE rowid < (SELECT max(rowid) - 10000 FROM seen_updates)", NULL);
    char *body = lj_string(lj_find(request, "body"));
    char *update = lj_raw(lj_find(body, "update_id"));
    const char *message = lj_find(body, "message");
    char *chat = lj_raw(lj_find(lj_find(message, "chat"), "id")), *text = lj_string(lj_find(message, "text"));
    char *answer;
    if (!update || !chat) {
        answer = answered(200, "Nothing to do.");
    } else if (!changed("INSERT OR IGNORE INTO seen_updates (agent, id) VALUES (?, ?)",
                        lj_write("[", agent, ",", update, "]", NULL))) {
        answer = answered(200, "Known already.");
    } else if (!text || !*text) {
        say(chat, "I can read words only.");
        answer = answered(200, "No words.");
    } else if (strcmp(text, "/reset") == 0) {
        reset(agent, chat);
        answer = answered(200, "Reset.");
    } else {
        received(agent, chat, text);
        answer = answered(200, "Taken.");
    }
    free(body);
    free(update);
    free(chat);
    free(text);
    return answer;
}

static const char *handle_route(osr_plugin_ctx_t context, const char *request)
{
    (void)context;
    char *agent = own(host->get_active_agent_id());
    char *answer = agent ? webhook(agent, request) : answered(503, "No agent is bound to this request.");
    free(agent);
    return answer;
}

/* ---- what the agent can do ---- */

static char *refused(const char *kind, const char *message, const char *field)
{
    if (field)
        return lj_write("{\"ok\":false,\"kind\":", kind, ",\"message\":", message, ",\"field\":", field, "}", NULL);
    return lj_write("{\"ok\":false,\"kind\":", kind, ",\"message\":", message, "}", NULL);
}

static char *message_of(const char *id, const char *chat, const char *payload, const char **method)
{
    char *text = lj_string(lj_find(payload, "text")), *url = lj_string(lj_find(payload, "url"));
    char *caption = lj_string(lj_find(payload, "caption")), *body = NULL;
    if (strcmp(id, "reply") == 0 && text && *text) {
        *method = "sendMessage";
        body = lj_write("{\"chat_id\":", chat, ",\"text\":", text, "}", NULL);
    } else if (strcmp(id, "reply_typing") == 0) {
        *method = "sendChatAction";
        body = lj_write("{\"chat_id\":", chat, ",\"action\":", "typing", "}", NULL);
    } else if (strcmp(id, "reply_photo") == 0 && url && *url) {
        *method = "sendPhoto";
        body = lj_write("{\"chat_id\":", chat, ",\"photo\":", url, ",\"caption\":", caption ? caption : "", "}", NULL);
    }
    free(text);
    free(url);
    free(caption);
    return body;
}

static const char *invoke(osr_plugin_ctx_t context, const char *type, const char *id, const char *payload)
{
    (void)context;
    if (strcmp(type, "tool") != 0 || strncmp(id, "reply", 5) != 0)
        return refused("tool_not_found", "There is no such tool.", NULL);
    char *token = lj_string(lj_find(payload, "token")), *agent = own(host->get_active_agent_id());
    char *found = token && agent ? row("SELECT chat FROM active_dispatches WHERE token = ? AND agent = ?",
                                       lj_write("[", token, ",", agent, "]", NULL))
                                 : NULL;
    char *chat = lj_string(lj_find(found, "chat")), *envelope;
    const char *method = NULL;
    char *body = chat ? message_of(id, chat, payload, &method) : NULL;
    if (!chat) {
        envelope = refused("invalid_args", "This token leads to no conversation, or the person has written since.",
                           "token");
    } else if (!body) {
        envelope = refused("invalid_args", "There is nothing to send.", strcmp(id, "reply") ? "url" : "text");
    } else {
        char *why = send_body(chat, method, body);
        if (why) {
            envelope = refused("execution_error", why, NULL); /* (5) */
        } else {
            if (strcmp(id, "reply_typing") != 0)
                changed("UPDATE active_dispatches SET replied = 1 WHERE token = ?", lj_write("[", token, "]", NULL));
            envelope = strdup("{\"ok\":true,\"result\":{\"sent\":true}}");
        }
        free(why);
    }
    free(token);
    free(agent);
    free(found);
    free(chat);
    return envelope;
}

/* ---- what becomes of tasks (7) ---- */

/* A question of the agent, in words; from now on the task waits. */
static char *question_of(const char *task, const char *json)
{
    char *question = lj_string(lj_find(json, "question"));
    struct lj words = {0};
    lj_add(&words, question ? question : "?");
    const char *options = lj_find(json, "options");
    for (int number = 0; lj_item(options, number); number++) {
        char *option = lj_string(lj_item(options, number));
        lj_add(&words, "\n- ");
        lj_add(&words, option ? option : "");
        free(option);
    }
    changed("UPDATE active_dispatches SET waiting = 1, replied = 1 WHERE task = ?", lj_write("[", task, "]", NULL));
    free(question);
    return words.text;
}

/* What is still to be said when a task has ended. */
static char *over(const char *agent, const char *chat, const char *task, const char *found, int event, const char *json)
{
    char *pending = lj_string(lj_find(found, "pending"));
    if (pending) {
        char *words = begin(agent, chat, pending);
        free(pending);
        return words;
    }
    changed("DELETE FROM active_dispatches WHERE task = ?", lj_write("[", task, "]", NULL));
    if (lj_number(lj_find(found, "replied"), 0) || event == OSR_TASK_EVENT_CANCELLED)
        return NULL;
    note(OSR_LOG_WARN, "A task ended without a reply.", task);
    if (event == OSR_TASK_EVENT_FAILED)
        return strdup("That went wrong. Please try again.");
    char *output = lj_string(lj_find(json, "output"));
    if (output && *output)
        return output;
    free(output);
    return strdup("I have no answer to that.");
}

static void on_task_event(osr_plugin_ctx_t context, const char *task, int event, const char *json)
{
    (void)context;
    if (event != OSR_TASK_EVENT_CLARIFICATION && event != OSR_TASK_EVENT_COMPLETED && event != OSR_TASK_EVENT_FAILED &&
        event != OSR_TASK_EVENT_CANCELLED) {
        note(OSR_LOG_DEBUG, "A task goes on.", task);
        return;
    }
    pthread_mutex_lock(&state);
    char *found = row("SELECT agent, chat, replied, pending FROM active_dispatches WHERE task = ?",
                      lj_write("[", task, "]", NULL));
    char *agent = lj_string(lj_find(found, "agent")), *chat = lj_string(lj_find(found, "chat"));
    char *words = NULL;
    if (agent && chat && event == OSR_TASK_EVENT_CLARIFICATION)
        words = question_of(task, json);
    else if (agent && chat)
        words = over(agent, chat, task, found, event, json);
    pthread_mutex_unlock(&state);
    if (words)
        say(chat, words);
    free(words);
    free(found);
    free(agent);
    free(chat);
}

/* ---- values ---- */

/* The host is reached from outside: the messenger is told where. The same address twice does no harm. */
static void on_config_changed(osr_plugin_ctx_t context, const char *key, const char *value)
{
    (void)context;
    char *agent = own(host->get_active_agent_id());
    if (agent && strcmp(key, "tunnel_url") == 0 && *value) {
        char *secret = setting("webhook_secret", "");
        struct lj url = {0};
        lj_add(&url, value);
        lj_add(&url, "/plugins/" PLUGIN "/webhook?osr_agent=");
        lj_add(&url, agent);
        char *body = lj_write("{\"url\":", url.text, ",\"secret_token\":", secret, "}", NULL);
        char *why = call_messenger("setWebhook", body);
        if (why)
            host->log(OSR_LOG_WARN, why);
        free(why);
        free(body);
        free(url.text);
        free(secret);
    }
    free(agent);
}

/* ---- the table ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_queues(void)
{
    for (int i = 0; i < STRIPES; i++) {
        pthread_mutex_init(&queues[i].door, NULL);
        pthread_cond_init(&queues[i].next, NULL);
    }
}

static osr_plugin_ctx_t init(void)
{
    pthread_once(&once, make_queues);
    ready();
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
    .handle_route = handle_route,
    .on_config_changed = on_config_changed,
    .on_task_event = on_task_event,
};

const osr_plugin_api *osaurus_plugin_entry_v2(const osr_host_api *given)
{
    host = given;
    return &API;
}
