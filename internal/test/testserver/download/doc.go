// Package download fetches programs that tests need and the machine lacks: servers, and a C compiler.
//
// A server that is already there (see [testserver.Available]) is used as it is. One that is
// missing is taken from Debian's archive and unpacked into [testserver.Cache], with all libraries
// it needs, including the C library. Nothing outside that folder changes and no root rights are
// needed, so this works on any Debian or Ubuntu with apt-get and dpkg-deb.
package download
