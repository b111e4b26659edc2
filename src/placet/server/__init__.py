"""The ASGI app: API, review pages, inbox and discovery on top of the desk."""
