package main

// maxCircle is the number of files that a circle may have.
const maxCircle = 15

// known lists packages with a larger circle, and its size. It may shrink, but not grow. An entry that is not needed any
// longer has to be removed.
var known = map[string]int{}
