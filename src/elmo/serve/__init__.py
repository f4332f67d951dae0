"""The service: `elmo serve`. Needs the extra `serve`; nothing else in the package imports it."""
