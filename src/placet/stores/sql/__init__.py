"""What all storage engines in SQL share: conversion of rows, write operations, and the methods of a store."""
