/* Prints where the compiler puts each entry of both tables, and what the constants are. */
#include <stddef.h>
#include <stdio.h>

#include "osaurus_plugin.h"

#define HOST(name) printf("host %s %zu\n", #name, offsetof(osr_host_api, name))
#define PLUGIN(name) printf("plugin %s %zu\n", #name, offsetof(osr_plugin_api, name))
#define CONSTANT(name) printf("constant %s %d\n", #name, (int)(name))

/* Each entry has the type that bears its name. */
#define TYPED(name)                                                                                                    \
    {                                                                                                                  \
        osr_host_api api = {0};                                                                                        \
        osr_##name##_fn *typed = &api.name;                                                                            \
        (void)typed;                                                                                                   \
        HOST(name);                                                                                                    \
    }

int main(void) {
    printf("host sizeof %zu\nhost alignof %zu\n", sizeof(osr_host_api), _Alignof(osr_host_api));
    printf("plugin sizeof %zu\nplugin alignof %zu\n", sizeof(osr_plugin_api), _Alignof(osr_plugin_api));
    HOST(version);
    TYPED(config_get)
    TYPED(config_set)
    TYPED(config_delete)
    TYPED(db_exec)
    TYPED(db_query)
    TYPED(log)
    TYPED(dispatch)
    TYPED(task_status)
    TYPED(dispatch_cancel)
    TYPED(dispatch_clarify)
    TYPED(complete)
    TYPED(complete_stream)
    TYPED(embed)
    TYPED(list_models)
    TYPED(http_request)
    TYPED(file_read)
    TYPED(list_active_tasks)
    TYPED(send_draft)
    TYPED(dispatch_interrupt)
    TYPED(dispatch_add_issue)
    TYPED(complete_cancel)
    TYPED(get_active_agent_id)
    TYPED(log_structured)
    {
        osr_host_api api = {0};
        osr_host_free_string_fn *typed = &api.free_string;
        (void)typed;
        HOST(free_string);
    }
    PLUGIN(free_string);
    PLUGIN(init);
    PLUGIN(destroy);
    PLUGIN(get_manifest);
    PLUGIN(invoke);
    PLUGIN(version);
    PLUGIN(handle_route);
    PLUGIN(on_config_changed);
    PLUGIN(on_task_event);
    CONSTANT(OSR_ABI_VERSION_1);
    CONSTANT(OSR_ABI_VERSION_2);
    CONSTANT(OSR_ABI_VERSION_3);
    CONSTANT(OSR_ABI_VERSION_4);
    CONSTANT(OSR_ABI_VERSION_5);
    CONSTANT(OSR_ABI_VERSION_6);
    CONSTANT(OSR_TASK_EVENT_STARTED);
    CONSTANT(OSR_TASK_EVENT_ACTIVITY);
    CONSTANT(OSR_TASK_EVENT_PROGRESS);
    CONSTANT(OSR_TASK_EVENT_CLARIFICATION);
    CONSTANT(OSR_TASK_EVENT_COMPLETED);
    CONSTANT(OSR_TASK_EVENT_FAILED);
    CONSTANT(OSR_TASK_EVENT_CANCELLED);
    CONSTANT(OSR_TASK_EVENT_OUTPUT);
    CONSTANT(OSR_TASK_EVENT_DRAFT);
    CONSTANT(OSR_LOG_TRACE);
    CONSTANT(OSR_LOG_DEBUG);
    CONSTANT(OSR_LOG_INFO);
    CONSTANT(OSR_LOG_WARN);
    CONSTANT(OSR_LOG_ERROR);
    return 0;
}
