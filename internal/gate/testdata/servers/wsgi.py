import sys

from flask import Flask

app = Flask("site")


@app.route("/login")
def login():
    return "the page"


app.run("127.0.0.1", int(sys.argv[1]))
