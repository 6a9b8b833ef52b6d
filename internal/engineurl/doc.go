// Package engineurl reads the URLs of engines. It connects a session to the engine that a URL names, or a tool to the
// data of that engine without the library.
package engineurl
