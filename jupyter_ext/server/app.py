"""The Jupyter Server extension: traits, wiring, shutdown, and the way a kernel finds this server.

Source: Agent Host Protocol for a terminal host; the public names of this package.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from typing import Any

from jupyter_server.extension.application import ExtensionApp
from jupyter_server.serverapp import ServerApp
from traitlets import Enum

from ..host.terminals import TerminalHost
from .handlers import AhpKernelHandler, AhpWebSocketHandler

__all__ = ["AgentHostApp", "KernelTokens"]


class KernelTokens:
    """What lets a kernel that this server started, and no other program, use the kernel route.

    A token is bound to a kernel's id and to the number of its start: a restarted kernel is another client. It is no wall against
    programs of the same Unix user.
    """

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._starts: dict[str, int] = {}

    def issue(self, kernel_id: str) -> str:
        """A token for a kernel that is about to start; those of its earlier starts are void."""
        self._starts[kernel_id] = self._starts.get(kernel_id, 0) + 1
        return self._token(kernel_id)

    def check(self, kernel_id: str, token: str) -> bool:
        """Whether a token is that of a kernel's present start."""
        return kernel_id in self._starts and hmac.compare_digest(self._token(kernel_id).encode(), token.encode())

    def _token(self, kernel_id: str) -> str:
        message = f"{kernel_id}:{self._starts[kernel_id]}".encode()
        return hmac.new(self._secret, message, hashlib.sha256).hexdigest()


class AgentHostApp(ExtensionApp):
    """Hosts terminals as Agent Host Protocol channels at ``<base_url>ahp``."""

    name = "jupyter_ahp"
    extension_url = "/ahp"
    load_other_extensions = True
    classes = [TerminalHost]  # noqa: RUF012 - traitlets reads a class attribute

    users = Enum(
        ["one", "identity"],
        default_value="one",
        help=(
            "Who is one user: 'one', whoever Jupyter lets in (its stock identity is a new random name per browser); or "
            "'identity', the identity provider's user name, for providers that name people."
        ),
    ).tag(config=True)

    host: TerminalHost | None = None

    @property
    def server(self) -> ServerApp:
        """The server that has loaded us."""
        assert self.serverapp is not None
        return self.serverapp

    @property
    def is_disabled(self) -> bool:
        """Whether the environment says to host nothing."""
        return os.environ.get("JUPYTER_AHP_DISABLE") == "1"

    def initialize_settings(self) -> None:
        """Make the host."""
        if self.is_disabled:
            self.log.info("JUPYTER_AHP_DISABLE is set: no terminals are hosted")
            return
        self.host = TerminalHost(parent=self)
        if not self.server.terminals_enabled:
            self.host.enabled = False
        if not self.host.start_folder:
            self.host.start_folder = self.server.root_dir
        self.tokens = KernelTokens()
        self._tell_kernels()

    def initialize_handlers(self) -> None:
        """Add the routes."""
        if self.host is None:
            return
        arguments = {"host": self.host, "users": self.users}
        self.handlers.extend(
            [
                (r"ahp", AhpWebSocketHandler, arguments),
                (r"ahp/kernel/([^/]+)", AhpKernelHandler, {**arguments, "tokens": self.tokens}),
            ]
        )

    async def stop_extension(self) -> None:
        """End every terminal when the server stops."""
        if self.host is not None:
            await self.host.shutdown()

    def _tell_kernels(self) -> None:
        """Put this server's address and a kernel's own token into the environment of each kernel that it starts.

        It wraps ``pre_start_kernel`` on the kernel manager's instance, which also sees restarts and kernels without a session.
        """
        manager: Any = self.server.kernel_manager
        original = getattr(manager, "pre_start_kernel", None)
        if original is None:  # a gateway: its kernels are started elsewhere
            return

        def pre_start_kernel(kernel_name: str | None, kwargs: dict[str, Any]) -> Any:
            result = original(kernel_name, kwargs)
            kernel_id = result[2]
            env = dict(os.environ if kwargs.get("env") is None else kwargs["env"])
            env["JUPYTER_AHP_KERNEL_URL"] = self._kernel_url()
            env["JUPYTER_AHP_KERNEL_ID"] = kernel_id
            env["JUPYTER_AHP_KERNEL_TOKEN"] = self.tokens.issue(kernel_id)
            kwargs["env"] = env
            return result

        manager.pre_start_kernel = pre_start_kernel

    def _kernel_url(self) -> str:
        """The URL by which a kernel on this machine reaches this server; its port is final only once it listens."""
        server = self.server
        if server.sock:
            return "http+unix://" + str(server.sock).replace("/", "%2F") + str(server.base_url)
        ip = "127.0.0.1" if server.ip in ("", "*", "0.0.0.0", "::", "localhost") else server.ip
        host = f"[{ip}]" if ":" in ip else ip
        return f"{'https' if server.certfile else 'http'}://{host}:{server.port}{server.base_url}"
