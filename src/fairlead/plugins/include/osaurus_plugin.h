/*
 * The plugin interface, version 6.
 *
 * A plugin is a shared library that exports osaurus_plugin_entry_v2. The host
 * gives it a table of functions, and gets a table of functions back.
 *
 * The order of both tables is frozen: entries are only ever appended, and one
 * that is retired stays as a reserved place.
 *
 * Strings. Arguments are borrowed: they are valid until the call returns.
 *   What a host function returns is yours: give it to host->free_string.
 *   What a plugin function returns is the host's: it copies the text, then
 *   calls the free_string of the plugin's own table.
 *
 * Threads. Host functions may be called from any thread. The calls into a
 *   plugin come from several threads at once; only on_config_changed comes one
 *   at a time.
 */
#ifndef OSAURUS_PLUGIN_H
#define OSAURUS_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OSR_ABI_VERSION_1 1 /* five functions, no host */
#define OSR_ABI_VERSION_2 2 /* the host's table; routes, config, tasks */
#define OSR_ABI_VERSION_3 3 /* complete_cancel */
#define OSR_ABI_VERSION_4 4 /* get_active_agent_id */
#define OSR_ABI_VERSION_5 5 /* log_structured */
#define OSR_ABI_VERSION_6 6 /* free_string */

/* event_type of on_task_event */
#define OSR_TASK_EVENT_STARTED 0
#define OSR_TASK_EVENT_ACTIVITY 1
#define OSR_TASK_EVENT_PROGRESS 2
#define OSR_TASK_EVENT_CLARIFICATION 3
#define OSR_TASK_EVENT_COMPLETED 4
#define OSR_TASK_EVENT_FAILED 5
#define OSR_TASK_EVENT_CANCELLED 6
#define OSR_TASK_EVENT_OUTPUT 7
#define OSR_TASK_EVENT_DRAFT 8

/* level of log and log_structured */
#define OSR_LOG_TRACE 0
#define OSR_LOG_DEBUG 1
#define OSR_LOG_INFO 2
#define OSR_LOG_WARN 3
#define OSR_LOG_ERROR 4

/* ---- the host's functions ------------------------------------------------ */

/* Values that belong to (this plugin, the calling agent, key). */
typedef const char *(*osr_config_get_fn)(const char *key);
typedef void (*osr_config_set_fn)(const char *key, const char *value);
typedef void (*osr_config_delete_fn)(const char *key);

/* The plugin's own database; params_json is an array, an object or NULL. */
typedef const char *(*osr_db_exec_fn)(const char *sql, const char *params_json);
typedef const char *(*osr_db_query_fn)(const char *sql, const char *params_json);

typedef void (*osr_log_fn)(int level, const char *message);

/* Tasks that agents do in the background. */
typedef const char *(*osr_dispatch_fn)(const char *request_json);
typedef const char *(*osr_task_status_fn)(const char *task_id);
typedef void (*osr_dispatch_cancel_fn)(const char *task_id);
typedef void (*osr_dispatch_clarify_fn)(const char *task_id, const char *response); /* reserved */

/* Models. */
typedef const char *(*osr_complete_fn)(const char *request_json);
typedef const char *(*osr_complete_stream_fn)(const char *request_json,
                                              void (*on_chunk)(const char *chunk_json, void *user_data),
                                              void *user_data);
typedef const char *(*osr_embed_fn)(const char *request_json);
typedef const char *(*osr_list_models_fn)(void);

/* The outside world, past the host's guard. */
typedef const char *(*osr_http_request_fn)(const char *request_json);
typedef const char *(*osr_file_read_fn)(const char *request_json);

/* More on tasks. */
typedef const char *(*osr_list_active_tasks_fn)(void);
typedef void (*osr_send_draft_fn)(const char *task_id, const char *draft_json);
typedef void (*osr_dispatch_interrupt_fn)(const char *task_id, const char *message); /* message may be NULL */
typedef const char *(*osr_dispatch_add_issue_fn)(const char *task_id, const char *issue_json); /* reserved */

/* Stop a stream by the stream_id of its request; never blocks. */
typedef void (*osr_complete_cancel_fn)(const char *stream_id);

/* The agent on whose behalf the plugin was called on this thread, or NULL. */
typedef const char *(*osr_get_active_agent_id_fn)(void);

/* payload_json has fields to search by; it may be NULL. */
typedef void (*osr_log_structured_fn)(int level, const char *message, const char *payload_json);

/* For every string that a host function returned; NULL is allowed. */
typedef void (*osr_host_free_string_fn)(const char *string);

typedef struct osr_host_api {
    uint32_t version; /* 6 */
    osr_config_get_fn config_get;
    osr_config_set_fn config_set;
    osr_config_delete_fn config_delete;
    osr_db_exec_fn db_exec;
    osr_db_query_fn db_query;
    osr_log_fn log;
    osr_dispatch_fn dispatch;
    osr_task_status_fn task_status;
    osr_dispatch_cancel_fn dispatch_cancel;
    osr_dispatch_clarify_fn dispatch_clarify;
    osr_complete_fn complete;
    osr_complete_stream_fn complete_stream;
    osr_embed_fn embed;
    osr_list_models_fn list_models;
    osr_http_request_fn http_request;
    osr_file_read_fn file_read;
    osr_list_active_tasks_fn list_active_tasks;
    osr_send_draft_fn send_draft;
    osr_dispatch_interrupt_fn dispatch_interrupt;
    osr_dispatch_add_issue_fn dispatch_add_issue;
    osr_complete_cancel_fn complete_cancel;           /* since 3 */
    osr_get_active_agent_id_fn get_active_agent_id;   /* since 4 */
    osr_log_structured_fn log_structured;             /* since 5 */
    osr_host_free_string_fn free_string;              /* since 6 */
} osr_host_api;

/* ---- the plugin's functions ---------------------------------------------- */

typedef void *osr_plugin_ctx_t;

typedef void (*osr_free_string_fn)(const char *string);
typedef osr_plugin_ctx_t (*osr_init_fn)(void);
typedef void (*osr_destroy_fn)(osr_plugin_ctx_t ctx);
typedef const char *(*osr_get_manifest_fn)(osr_plugin_ctx_t ctx);
typedef const char *(*osr_invoke_fn)(osr_plugin_ctx_t ctx, const char *type, const char *id, const char *payload);
typedef const char *(*osr_handle_route_fn)(osr_plugin_ctx_t ctx, const char *request_json);
typedef void (*osr_on_config_changed_fn)(osr_plugin_ctx_t ctx, const char *key, const char *value);
typedef void (*osr_on_task_event_fn)(osr_plugin_ctx_t ctx, const char *task_id, int event_type,
                                     const char *event_json);

typedef struct osr_plugin_api {
    /* every plugin has these five */
    osr_free_string_fn free_string;
    osr_init_fn init;       /* NULL: could not be set up */
    osr_destroy_fn destroy; /* called exactly once, when nothing else is running */
    osr_get_manifest_fn get_manifest;
    osr_invoke_fn invoke;
    /* since 2 */
    uint32_t version; /* one of OSR_ABI_VERSION_* */
    osr_handle_route_fn handle_route;           /* may be NULL */
    osr_on_config_changed_fn on_config_changed; /* may be NULL */
    osr_on_task_event_fn on_task_event;         /* may be NULL */
} osr_plugin_api;

/* What a plugin exports. The host's table stays valid until destroy has returned. */
const osr_plugin_api *osaurus_plugin_entry_v2(const osr_host_api *host);

/* The first version's entry; looked for only where the one above is missing. */
const osr_plugin_api *osaurus_plugin_entry(void);

#ifdef __cplusplus
}
#endif

#endif
