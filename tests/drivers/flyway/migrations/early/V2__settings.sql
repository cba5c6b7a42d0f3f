-- Flyway sets back what a migration leaves behind.
SET search_path = elsewhere;
SET ROLE NONE;
INSERT INTO public.runs VALUES (2);
CREATE FUNCTION public.many() RETURNS int LANGUAGE sql AS $$ SELECT count(*)::int FROM public.runs $$;
