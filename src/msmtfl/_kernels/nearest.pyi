# Python calls nothing in this kernel: active_set.py does.
