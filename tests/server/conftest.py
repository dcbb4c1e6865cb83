"""A Jupyter server with the extension in this process, by pytest-jupyter (`jp_serverapp`, `jp_fetch`, `jp_ws_fetch` ...).

Its fixtures hold for this folder only: some are automatic and would start and end a server application for every test of
the suite. Its hooks run an ``async def test_...`` here on the server's own loop, so such a test takes no asyncio mark.
"""

from __future__ import annotations

from typing import Any

import pytest
from pytest_jupyter.jupyter_server import *  # noqa: F403
from traitlets.config import Config

from jupyter_ext.server.app import AgentHostApp


@pytest.fixture
def jp_server_config(request: pytest.FixtureRequest) -> Config:
    """Enables the extension, which the data file does outside of tests; an indirect parameter is merged in."""
    config = Config({"ServerApp": {"jpserver_extensions": {"jupyter_ext": True, "jupyter_server_terminals": True}}})
    config.merge(Config(getattr(request, "param", {})))
    return config


@pytest.fixture
def agent_host_app(jp_serverapp: Any) -> AgentHostApp:
    """The extension's app in that server."""
    (app,) = jp_serverapp.extension_manager.extension_apps["jupyter_ext"]
    return app
