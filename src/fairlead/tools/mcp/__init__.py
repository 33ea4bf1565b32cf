"""Remote MCP servers as tools, over stdio and HTTP, with the official SDK's client."""

from fairlead.tools.mcp.attaching import add_mcp
from fairlead.tools.mcp.elicitation import ELICIT, Elicitation
from fairlead.tools.mcp.server import McpServer
from fairlead.tools.mcp.settings import SERVERS_FILE, configured_servers

__all__ = ["ELICIT", "SERVERS_FILE", "Elicitation", "McpServer", "add_mcp", "configured_servers"]
