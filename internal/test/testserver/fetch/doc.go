// Command fetch makes sure that this checkout can start every server its tests need.
//
// A server that is already there (see [testserver.Available]) is used as it is. One that is
// missing is taken from Debian's archive and unpacked into .cache/servers of the module root,
// with all libraries it needs, including the C library. Nothing outside that folder changes and
// no root rights are needed, so this works on any Debian or Ubuntu with apt-get and dpkg-deb.
//
// With -cc it provides a C compiler instead, which the race detector cannot do without, and prints
// the value of CC to use.
//
// A server that cannot be had is reported with what to install. That is an error when CI=true;
// elsewhere the tests that need the server will fail and say the same.
package main
