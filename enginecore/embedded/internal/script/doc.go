// Package script runs Lua functions as a Redis server runs them: it loads libraries, provides the global names that the
// server provides, and converts between values of Lua and replies. Of the engine it knows only a Host, which runs the
// commands that a function calls.
package script
