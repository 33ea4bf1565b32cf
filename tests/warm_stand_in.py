"""The command of a warm program: it hands over what it was given, and ends as the program does.

It is started hundreds of times: with Python's modules for sockets and signals it would take thrice the time, so it
uses what those are made of.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import marshal
import posix
import sys

heard = (_signal.SIGINT, _signal.SIGTERM)
text = marshal.dumps((sys.argv[2:], posix.getcwd(), posix.environ))
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
door = _socket.socket(_socket.AF_UNIX)
door.connect(sys.argv[1])
# The program may be at work, and signals sent, before there is time to listen for them here.
_signal.pthread_sigmask(_signal.SIG_BLOCK, heard)
door.sendmsg([len(text).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
door.sendall(text)
for each in heard:
    _signal.signal(each, lambda number, _: door.send(bytes([number])))
_signal.pthread_sigmask(_signal.SIG_UNBLOCK, heard)
nothing = posix.open("/dev/null", posix.O_RDWR)
for number in range(3):
    posix.dup2(nothing, number)
code = int(door.recv(16) or b"1")
if code < 0:
    if -code in heard:
        _signal.signal(-code, _signal.SIG_DFL)
    posix.kill(posix.getpid(), -code)
posix._exit(code)
