// Package service carries out the operations of package api on an engine.
package service
