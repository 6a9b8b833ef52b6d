// Package errorwords makes words of the texts of errors, by which searches find runs. [Of] normalises a text: two
// errors that differ in ids and numbers have nearly the same words. A [Key] hashes the words: without it, an index of
// the hashes does not reveal the texts.
package errorwords
