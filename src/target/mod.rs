pub mod audit; 
