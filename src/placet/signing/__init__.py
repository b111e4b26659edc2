"""How answers are proved: keys and signatures; nothing here decides what is signed."""
