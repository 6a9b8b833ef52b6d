// Package wireform writes and reads the wire form of a protocol, the agreement between programs and the library, and
// reports changes of the library that break programs in use.
package wireform
