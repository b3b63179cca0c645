import sys

import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route


async def login(request):
    return PlainTextResponse("the page")


uvicorn.run(Starlette(routes=[Route("/login", login)]), host="127.0.0.1", port=int(sys.argv[1]))
