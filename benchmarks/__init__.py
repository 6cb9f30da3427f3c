"""How fast dtq is on this machine."""
