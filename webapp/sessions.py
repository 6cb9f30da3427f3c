"""Sessions of people who signed in: a signed cookie that only this site gets back."""

from datetime import timedelta

from flask import Flask

from dtq_engine import Settings

COOKIE = {
    "SESSION_COOKIE_NAME": "__Host-dtq",
    "SESSION_COOKIE_PATH": "/",
    "SESSION_COOKIE_SECURE": True,
    "SESSION_COOKIE_HTTPONLY": True,
    "SESSION_COOKIE_SAMESITE": "Lax",
    "PERMANENT_SESSION_LIFETIME": timedelta(hours=12),
}


def configure(flask: Flask, settings: Settings) -> None:
    """Set up the cookie. Without a key there are no sessions, and nobody has a password then."""
    flask.secret_key = settings.secret_key
    flask.config |= COOKIE
