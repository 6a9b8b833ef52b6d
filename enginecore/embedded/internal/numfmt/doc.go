// Package numfmt converts between numbers and text as a Redis server does: integer and float arguments, scores, and
// numbers of Lua and of its JSON library.
package numfmt
