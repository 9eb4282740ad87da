"""What the search asks at its leaves. Read ``door.py`` for how it asks, ``shapes.py``, ``lanes.py`` and ``tables.py``
for evaluators made of lookup tables, ``compile.py`` for how a trained net becomes one."""
