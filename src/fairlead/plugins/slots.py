"""The 25 slots of the host's table, in their frozen order: what each takes, what it gives, when it came.

One table for the host, the helper process and the tests. The helper loads this file alone, so it imports nothing.
"""

ABI_VERSION = 6

#: What a slot gives back.
JSON = "json"  # a JSON text; NULL only when its first argument was NULL
VALUE = "value"  # a string, or NULL
VOID = "void"  # nothing, and the plugin goes on when it is done
NOTE = "note"  # nothing, and the plugin goes on at once
LOCAL = "local"  # answered beside the plugin, without asking the host


class Slot:
    """One entry of the table. `args` has `i` for an int, `s` for a string; `c` is a chunk callback and its data."""

    __slots__ = ("args", "gives", "name", "number", "required", "reserved", "since")

    def __init__(
        self, number: int, name: str, args: str, required: int, gives: str, since: int, reserved: bool = False
    ) -> None:
        self.number = number
        self.name = name
        self.args = args
        #: Where one of the first `required` arguments is NULL, the call has no effect and gives NULL.
        self.required = required
        self.gives = gives
        self.since = since
        self.reserved = reserved

    @property
    def offset(self) -> int:
        """Where the slot stands in the table, in bytes."""
        return self.number * 8

    def __repr__(self) -> str:
        return f"<Slot {self.number} {self.name}>"


CONFIG_GET = 1
CONFIG_SET = 2
CONFIG_DELETE = 3
DB_EXEC = 4
DB_QUERY = 5
LOG = 6
DISPATCH = 7
TASK_STATUS = 8
DISPATCH_CANCEL = 9
DISPATCH_CLARIFY = 10
COMPLETE = 11
COMPLETE_STREAM = 12
EMBED = 13
LIST_MODELS = 14
HTTP_REQUEST = 15
FILE_READ = 16
LIST_ACTIVE_TASKS = 17
SEND_DRAFT = 18
DISPATCH_INTERRUPT = 19
DISPATCH_ADD_ISSUE = 20
COMPLETE_CANCEL = 21
GET_ACTIVE_AGENT_ID = 22
LOG_STRUCTURED = 23
FREE_STRING = 24

#: The functions; entry 0 of the table is `version`. `SLOTS[n]` is slot n, `SLOTS[0]` is None.
SLOTS: tuple[Slot | None, ...] = (
    None,
    Slot(CONFIG_GET, "config_get", "s", 1, VALUE, 2),
    Slot(CONFIG_SET, "config_set", "ss", 2, VOID, 2),
    Slot(CONFIG_DELETE, "config_delete", "s", 1, VOID, 2),
    Slot(DB_EXEC, "db_exec", "ss", 1, JSON, 2),
    Slot(DB_QUERY, "db_query", "ss", 1, JSON, 2),
    Slot(LOG, "log", "is", 2, NOTE, 2),
    Slot(DISPATCH, "dispatch", "s", 1, JSON, 2),
    Slot(TASK_STATUS, "task_status", "s", 1, JSON, 2),
    Slot(DISPATCH_CANCEL, "dispatch_cancel", "s", 1, VOID, 2),
    Slot(DISPATCH_CLARIFY, "dispatch_clarify", "ss", 1, VOID, 2, reserved=True),
    Slot(COMPLETE, "complete", "s", 1, JSON, 2),
    Slot(COMPLETE_STREAM, "complete_stream", "sc", 1, JSON, 2),
    Slot(EMBED, "embed", "s", 1, JSON, 2),
    Slot(LIST_MODELS, "list_models", "", 0, JSON, 2),
    Slot(HTTP_REQUEST, "http_request", "s", 1, JSON, 2),
    Slot(FILE_READ, "file_read", "s", 1, JSON, 2),
    Slot(LIST_ACTIVE_TASKS, "list_active_tasks", "", 0, JSON, 2),
    Slot(SEND_DRAFT, "send_draft", "ss", 2, VOID, 2),
    Slot(DISPATCH_INTERRUPT, "dispatch_interrupt", "ss", 1, VOID, 2),
    Slot(DISPATCH_ADD_ISSUE, "dispatch_add_issue", "ss", 1, JSON, 2, reserved=True),
    Slot(COMPLETE_CANCEL, "complete_cancel", "s", 1, NOTE, 3),
    Slot(GET_ACTIVE_AGENT_ID, "get_active_agent_id", "", 0, LOCAL, 4),
    Slot(LOG_STRUCTURED, "log_structured", "iss", 2, NOTE, 5),
    Slot(FREE_STRING, "free_string", "s", 0, LOCAL, 6),
)

#: All functions, without the empty entry 0.
ALL: tuple[Slot, ...] = tuple(slot for slot in SLOTS if slot is not None)
BY_NAME: dict[str, Slot] = {slot.name: slot for slot in ALL}

HOST_API_SIZE = 200
PLUGIN_API_SIZE = 72
#: The five pointers that every plugin has; all that is read of a table from the first version.
PLUGIN_API_V1_SIZE = 40

#: The plugin's table: (name, offset, whether a plugin must have it).
PLUGIN_FIELDS: tuple[tuple[str, int, bool], ...] = (
    ("free_string", 0, True),
    ("init", 8, True),
    ("destroy", 16, True),
    ("get_manifest", 24, True),
    ("invoke", 32, True),
    ("version", 40, False),
    ("handle_route", 48, False),
    ("on_config_changed", 56, False),
    ("on_task_event", 64, False),
)

ENTRY_V2 = "osaurus_plugin_entry_v2"
ENTRY_V1 = "osaurus_plugin_entry"

#: What happened to a task, by its number in `on_task_event`.
TASK_EVENTS: tuple[str, ...] = (
    "STARTED",
    "ACTIVITY",
    "PROGRESS",
    "CLARIFICATION",
    "COMPLETED",
    "FAILED",
    "CANCELLED",
    "OUTPUT",
    "DRAFT",
)
LOG_LEVELS: tuple[str, ...] = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR")
