// Package lualib assembles the files of folder lua to the engine's function library.
package lualib
