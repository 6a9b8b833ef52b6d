// Package luagen generates the Lua files of the library: declarations of modules, key builders, encoders and decoders
// of messages, texts and rows, and the registration of functions with the unpacking of KEYS and ARGV.
package luagen
