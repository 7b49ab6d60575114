"""Starts a service as systemd's socket unit for all users does: its socket is root's, and a group may use it.

usage: socket_activate.py TREE SOCKET USER COMMAND ...    (as root; TREE is entered first, the group is the user's)
"""

import grp
import os
import pwd
import socket
import sys

tree, path, user, *command = sys.argv[1:]
os.chroot(tree)
os.chdir("/")
account = pwd.getpwnam(user)
os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind(path)
os.chown(path, 0, grp.getgrnam(user).gr_gid)
os.chmod(path, 0o660)
listener.listen(128)
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.setgroups([])
os.setgid(account.pw_gid)
os.setuid(account.pw_uid)
names = {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
os.execve(command[0], command, {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **names})
