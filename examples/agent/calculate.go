package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

const (
	maxExpression = 1024 // bytes
	maxNesting    = 64   // parentheses and signs
)

// calculate evaluates an expression of decimal numbers, the operators + - * /, signs and parentheses.
func calculate(text string) (float64, error) {
	if len(text) > maxExpression {
		return 0, fmt.Errorf("has %d bytes, at most %d are allowed", len(text), maxExpression)
	}
	e := expression{rest: text}
	value, err := e.sum(0)
	if err != nil {
		return 0, err
	}
	if e.next() != 0 {
		return 0, fmt.Errorf("%q is not expected", e.rest)
	}
	if math.IsInf(value, 0) || math.IsNaN(value) {
		return 0, errors.New("the value is too large")
	}
	return value, nil
}

// expression is the rest of an expression.
type expression struct{ rest string }

// next returns the next character except spaces, 0 at the end.
func (e *expression) next() byte {
	if e.rest = strings.TrimLeft(e.rest, " \t"); e.rest == "" {
		return 0
	}
	return e.rest[0]
}

func (e *expression) sum(depth int) (float64, error) {
	value, err := e.product(depth)
	for err == nil {
		operator := e.next()
		if operator != '+' && operator != '-' {
			return value, nil
		}
		e.rest = e.rest[1:]
		var other float64
		if other, err = e.product(depth); operator == '-' {
			other = -other
		}
		value += other
	}
	return 0, err
}

func (e *expression) product(depth int) (float64, error) {
	value, err := e.factor(depth)
	for err == nil {
		operator := e.next()
		if operator != '*' && operator != '/' {
			return value, nil
		}
		e.rest = e.rest[1:]
		var other float64
		switch other, err = e.factor(depth); {
		case err != nil:
		case operator == '*':
			value *= other
		case other == 0:
			err = errors.New("division by zero")
		default:
			value /= other
		}
	}
	return 0, err
}

func (e *expression) factor(depth int) (float64, error) {
	if depth > maxNesting {
		return 0, fmt.Errorf("is nested more than %d deep", maxNesting)
	}
	switch c := e.next(); {
	case c == '-':
		e.rest = e.rest[1:]
		value, err := e.factor(depth + 1)
		return -value, err
	case c == '(':
		e.rest = e.rest[1:]
		value, err := e.sum(depth + 1)
		if err == nil && e.next() != ')' {
			err = errors.New("a parenthesis is not closed")
		}
		if err != nil {
			return 0, err
		}
		e.rest = e.rest[1:]
		return value, nil
	}
	digits := len(e.rest) - len(strings.TrimLeft(e.rest, "0123456789."))
	value, err := strconv.ParseFloat(e.rest[:digits], 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no number", e.rest)
	}
	e.rest = e.rest[digits:]
	return value, nil
}
