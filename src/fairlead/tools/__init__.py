"""Built-in tools, each an ordinary action, made by the function that its module is named after:

    from fairlead.tools.files import files
    from fairlead.tools.shell import shell

`files`, `shell`, `sandbox`, `documents` and `charts` are such modules; `artifacts_sharing` has `sharing`, `loop` has
`loop_tools`, `mcp` has `McpServer` and `openapi` has `openapi_tools`.
"""
