// Package errorcode has the error codes of the function library that users have no need of. Those that they do are in
// package enginecore.
package errorcode
