// Command circles fails when files of a package depend on each other in a circle that is too large to read one after
// the other. A file depends on another one of its package if it uses a name of package level, or a method, that the
// other one declares. Fields of structs, tests and generated files are not counted.
//
// `make circles` runs it on each module.
package main
